"""ICU-Sepsis: logs of its expert, and the exact value of whatever is learned from them."""
