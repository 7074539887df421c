"""Process control: pcgym's stirred tank reactor and four tanks, under a PID, with its NMPC."""
