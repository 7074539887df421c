"""Every code block of README and docs runs as it stands; and the runner sees what it should."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pages

ROOT = Path(__file__).parent.parent
SHOWN_ONLY = {"results.md", "scale.md", "peers.md"}  # results: their commands take hours
FROM_THE_WHEEL = {"quickstart.md"}  # by benchmarks/quickstart.py, which .ci/run calls


def is_run(page: Path) -> bool:
    text = page.read_text(encoding="utf-8")
    by_hand = page.name not in SHOWN_ONLY | FROM_THE_WHEEL and page.parent.name != "api"
    return by_hand and "```" in text and "--8<--" not in text


EVERY = [ROOT / "README.md", *sorted(filter(is_run, (ROOT / "docs").rglob("*.md")))]


def test_no_page_is_left_out():
    names = {str(page.relative_to(ROOT)) for page in EVERY}
    assert {"README.md", "docs/install.md", "docs/method.md", "docs/theory.md"} <= names
    assert names.issuperset(STANDING)
    assert "benchmarks.quickstart" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert sum(name.startswith("docs/tutorials/") for name in names) == 7
    assert sum(name.startswith("docs/howto/") for name in names) == 11


# The standing tier runs the front page; the rest is full.
STANDING = ("README.md",)
HOWTOS = [page for page in EVERY if page.parent.name == "howto"]


def marked(page):
    name = str(page.relative_to(ROOT))
    return pytest.param(page, id=name, marks=[] if name in STANDING else pytest.mark.full)


@pytest.mark.slow
@pytest.mark.parametrize("page", [marked(page) for page in EVERY if page not in HOWTOS])
def test_a_page_runs(page, tmp_path):
    folder = tmp_path / "page"
    assert pages.run(page, folder, skip_install=True)
    check_pictures(page, folder)


@pytest.mark.full
def test_the_howtos_run_in_one_process(tmp_path):
    names = [page.stem for page in HOWTOS]
    assert all(pages.run_several(HOWTOS, tmp_path, names))
    for page in HOWTOS:
        check_pictures(page, tmp_path / page.stem)


def check_pictures(page, folder):
    pictures = re.findall(r'savefig\("([^"]+)"', page.read_text(encoding="utf-8"))
    assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in pictures)


def test_pages_of_one_process_share_nothing(tmp_path):
    first = tmp_path / "first.md"
    text = '```python title="mine.py"\nx = 1\n```\n\n```python\nimport mine\nprint(mine.x)\n```\n'
    first.write_text(text)
    second = tmp_path / "second.md"
    second.write_text(text.replace("x = 1", "x = 2").replace("import mine", "import mine, os"))
    ran = pages.run_several([first, second], tmp_path, ["a", "b"])
    assert [[one.output for one in page] for page in ran] == [["1\n"], ["2\n"]]


def page_of(folder, text):
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def outputs(folder, text, **settings):
    """What the blocks of a page print."""
    ran = pages.run(page_of(folder, text), folder / "run", **settings)
    return [one.output for one in ran]


SESSION = """
```python
import os

x = 2
print("XLA_FLAGS" in os.environ, os.environ["PATH"].split(":")[0])
```

```python title="sub/mine.py"
y = 3
```

```toml title="settings.toml"
z = 4
```

```bash
cat settings.toml
python -c "import sys; print(sys.executable)"
```

!!! note
    In an admonition:

    ```python
    from sub.mine import y

    if x:
        print(x + y)
    ```
"""


def test_python_blocks_share_a_session_and_titles_are_files(tmp_path):
    first, shell, last = outputs(tmp_path, SESSION)
    beside = Path(sys.executable).parent
    assert first.split() == ["False", str(beside)]
    assert shell.splitlines() == ["z = 4", str(beside / "python")]
    assert last == "5\n"
    assert (tmp_path / "run" / "sub" / "mine.py").read_text() == "y = 3\n"


def test_a_python_block_that_fails_points_at_the_page(tmp_path):
    text = "# A page\n\n```python\nx = 1\n```\n\n```python\nprint('before')\nx / 0\n```\n"
    with pytest.raises(pages.PageError) as caught:
        outputs(tmp_path, text)
    message, page = str(caught.value), (tmp_path / "page.md").resolve()
    assert message.startswith(f"{page}:8: python block failed\nprint('before')\nx / 0\n")
    assert f'before\nTraceback (most recent call last):\n  File "{page}", line 9' in message
    assert message.endswith("ZeroDivisionError: division by zero\n")
    assert len(caught.value.ran) == 1


def test_a_command_that_fails_is_named(tmp_path):
    text = "```bash\necho first\n```\n\n```bash\necho before\nls gone\necho after\n```\n"
    with pytest.raises(pages.PageError) as caught:
        outputs(tmp_path, text)
    message, page = str(caught.value), (tmp_path / "page.md").resolve()
    assert message.startswith(f"{page}:6: bash block failed\necho before\nls gone\n")
    assert message.endswith(f"{page}:7: status 2: ls gone\n")


FAILS = [
    ("```bash\nfalse | cat\n```\n", "failed"),
    ("```bash\necho $nothing\n```\n", "unbound variable"),
    ("```python\nimport sys; sys.exit(0)\n```\n", "failed"),
    ("```python\nimport os; os._exit(0)\n```\n", "ended the session, status 0"),
    ("```python\nimport time; time.sleep(60)\n```\n", "was ended, 2 seconds"),
]
REFUSED = [
    ("```ruby\n1\n```\n", ":1: language 'ruby'"),
    ("```\n1\n```\n", ":1: language ''"),
    ("words\n\n```console\n$ ls\n```\n", ":3: language 'console'"),
    ("```python hl_lines='1'\n1\n```\n", ":1: code that is not seen"),
    ("~~~\n1\n~~~\n", ":1: code that is not seen"),
    ("> ```python\n> 1\n> ```\n", ":1: code that is not seen"),
    ("- ```bash\n  ls\n  ```\n", ":1: code that is not seen"),
    ('--8<-- "docs/example.md"\n', ":1: code that is not seen"),
    ("    python train.py\n", ":1: a command without a fence"),
    ("```text\nout\n  gamps train\n```\n", ":3: a command in text"),
    ("```text\n$ ls\n```\n", ":2: a command in text"),
    ("```toml\na = 1\n```\n", ":1: toml without a title"),
    ('```python title="../a.py"\n1\n```\n', ":1: ../a.py is out of the page's folder"),
    ('```python title="/a.py"\n1\n```\n', ":1: /a.py is out of the page's folder"),
    ('```text title="a.txt"\n1\n```\n', ":1: text is not written"),
    ("```python\n1\n", ":1: a block without an end"),
]


@pytest.mark.parametrize(("text", "said"), FAILS)
def test_what_fails_is_named(tmp_path, text, said):
    with pytest.raises(pages.PageError, match=r"page\.md:2: ") as caught:
        outputs(tmp_path, text, timeout=2 if "sleep" in text else 60)
    assert said in str(caught.value)


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_would_go_unseen_is_refused(tmp_path, text, said):
    with pytest.raises(pages.PageError, match=re.escape(f"page.md{said}")):
        outputs(tmp_path, f"{text}\n```python\n1\n```\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["words", "```text\n1\n```", '```python title="a.py"\n1\n```'])
def test_a_page_without_code_is_refused(tmp_path, text):
    with pytest.raises(pages.PageError, match="no code is executed"):
        outputs(tmp_path, text)


def test_a_folder_that_is_not_fresh_is_refused(tmp_path):
    with pytest.raises(pages.PageError, match="not empty"):
        pages.run(page_of(tmp_path, "```python\n1\n```\n"), tmp_path)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("3 runs,   mean 2.5", True), ("8 runs, ... -1e-3", True), ("...", True), ("runs", True),
     ("3 runs, median 2.5", False), ("other", False)],
)  # fmt: skip
def test_text_is_what_was_printed_numbers_aside(tmp_path, shown, printed):
    text = f"```python\nprint('7 runs, mean 0.5')\n```\n\nwords\n\n```text\n{shown}\n```\n"
    if printed:
        outputs(tmp_path, text)
        return
    with pytest.raises(pages.PageError, match=rf"page\.md:8: was not printed: {shown}"):
        outputs(tmp_path, text)


def test_what_a_block_leaves_running_ends_with_the_page(tmp_path):
    (output,) = outputs(tmp_path, "```bash\nsleep 600 > /dev/null & echo $!\n```\n")
    for _ in range(100):  # a process that was killed may take a moment to be gone
        shown = subprocess.run(["ps", "-o", "stat=", "-p", output.strip()], capture_output=True)
        if shown.stdout.strip()[:1] in (b"", b"Z"):
            return
        time.sleep(0.1)
    pytest.fail(f"process {output.strip()} still runs: {shown.stdout!r}")


def test_only_an_install_is_skipped(tmp_path):
    made = "python -m venv --without-pip .venv && . .venv/bin/activate"
    install = f"```bash\n{made}\npip install --help\n```\n\n"
    text = install + "```bash\necho python -m venv\n```\n"
    assert outputs(tmp_path, text, skip_install=True) == ["python -m venv\n"]
    more = text.replace("pip install --help", "pip install --help\nfalse")
    with pytest.raises(pages.PageError):
        pages.run(page_of(tmp_path, more), tmp_path / "more", skip_install=True)
    with pytest.raises(pages.PageError, match="status 1: false"):
        pages.run(tmp_path / "page.md", tmp_path / "again", python=os.path.realpath(sys.executable))


def test_by_hand(tmp_path, monkeypatch, capsys):
    page = page_of(tmp_path, "```python\nprint('here')\n```\n")
    monkeypatch.setattr(sys, "argv", ["pages.py", str(page), "--verbose"])
    assert pages.main() == 0
    assert "here\n" in capsys.readouterr().out
    page_of(tmp_path, "```python\nx\n```\n")
    assert pages.main() == 1
    assert "NameError" in capsys.readouterr().err
