"""Files that would run code if any loader let them: none does, and all are refused by type."""

import importlib.util
import io
import json
import marshal
import struct
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy

import gamps
from gamps import datasets
from gamps._utils import atomic_io
from gamps.deployment import write
from gamps.deployment.load import ACT, HEADER, TITLE, load_policy
from gamps.envs import TwoTanks, collect, tanks
from gamps.errors import GampsError
from gamps.policies import rebuild
from gamps.runs import checkpoints, folder

LOG = collect(TwoTanks(), tanks.policy(), jax.random.key(1), n=6, steps=4)


def bombs(mark: Path) -> dict[str, bytes]:
    """Thirty files, each of which touches `mark` if it is run, unpickled or evaluated."""
    # The opcodes are written by hand: no module that reads such files is imported, here either.
    call = f"open({str(mark)!r}, 'w').close()"
    simple = b"cbuiltins\nexec\n(S" + repr(call).encode() + b"\ntR."
    system = b"cos\nsystem\n(S" + repr(f"touch {mark}").encode() + b"\ntR."
    protocol2 = b"\x80\x02" + simple
    protocol4 = (
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93"
        + b"X" + struct.pack("<I", len(call)) + call.encode() + b"\x85R."
    )  # fmt: skip
    heading = b"\x93NUMPY\x01\x00"
    described = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    described += b" " * (117 - len(described)) + b"\n"
    objects = heading + struct.pack("<H", len(described)) + described + protocol2
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data.npy", objects)
        file.writestr("data.pkl", simple)
        file.writestr("../../escaped.py", call)
    code = compile(call, "x", "exec")
    tensors = safetensors.numpy.save({"w": np.frombuffer(simple, np.uint8)}, {"run": call})
    python = json.dumps({"class": "os.system", "fields": {"command": f"touch {mark}"}})
    return {
        "pickle": simple, "pickle system": system, "pickle 2": protocol2, "pickle 4": protocol4,
        "npy of objects": objects, "npz": archive.getvalue(), "python": call.encode(),
        "marshal": marshal.dumps(code), "pyc": b"\xa7\r\r\n" + b"\0" * 12 + marshal.dumps(code),
        "safetensors with code": tensors, "json class": python.encode(),
        "json import": json.dumps({"class": f"__import__('os').system('touch {mark}')"}).encode(),
        "json py/object": json.dumps({"py/object": "os.system"}).encode(),
        "json reduce": json.dumps({"py/reduce": ["os.system", [f"touch {mark}"]]}).encode(),
        "yaml object": f"!!python/object/apply:os.system ['touch {mark}']".encode(),
        "yaml new": f"!!python/object/new:os.system [touch {mark}]".encode(),
        "shell": f"#!/bin/sh\ntouch {mark}\n".encode(), "backticks": f"`touch {mark}`".encode(),
        "csv formula": f"run,x,u,r\n0,=cmd|'touch {mark}'!A1,0,0\n".encode(),
        "csv code": f'run,x,u,r\n0,"{call}",0,0\n'.encode(),
        "format string": b"{0.__class__.__mro__[1].__subclasses__}", "nul": b"\0" * 256,
        "deep json": b"[" * 100_000, "huge number": b'{"array": [1e999999], "dtype": "float32"}',
        "huge header": struct.pack("<Q", 2**62) + b"{}", "header past the end":
        struct.pack("<Q", 100) + b"{}", "toml": f"task = \"os:system\"\nlog = '{call}'".encode(),
        "hdf5 with object": b"\x89HDF\r\n\x1a\n" + simple, "parquet": b"PAR1" + simple + b"PAR1",
        "stablehlo with a call": b'module { stablehlo.custom_call @xla_python_cpu_callback() }',
    }  # fmt: skip


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A sound one of everything that is read, and how it is read."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    stored = datasets.save("tanks/day-v0", LOG, tanks.policy(), discount=0.9)
    kept = checkpoints.save(tmp_path / "checkpoints", 1, {"w": np.ones(2)}, {})
    policy = write.export(tanks.policy(), LOG, tmp_path / "policy")
    run = folder.create(tmp_path / "run", {"log": "tanks/day-v0"})
    columns = datasets.Columns("run", ("x",), ("u",), "r")
    (tmp_path / "log.csv").write_text("run,x,u,r\n0,0,0,0\n0,1,1,1\n")
    (tmp_path / "log.parquet").write_bytes(b"")
    (tmp_path / "description.json").write_text("{}")

    def described():
        text = (tmp_path / "description.json").read_text(encoding="utf-8")
        return rebuild(json.loads(text))

    files = [
        (lambda: datasets.load("tanks/day-v0"), stored / "data" / "main_data.hdf5"),
        (lambda: datasets.load("tanks/day-v0"), stored / "data" / "metadata.json"),
        (lambda: datasets.load("tanks/day-v0"), stored / "sha256.json"),
        *((lambda: checkpoints.load(kept), path) for path in sorted(kept.iterdir())),
        *((lambda: load_policy(policy), path) for path in sorted(policy.iterdir())),
        (lambda: folder.header(run), run / "run.json"),
        (lambda: datasets.read_table(tmp_path / "log.csv", columns), tmp_path / "log.csv"),
        (described, tmp_path / "description.json"),
    ]
    if importlib.util.find_spec("pyarrow"):
        path = tmp_path / "log.parquet"
        files.append((lambda: datasets.read_table(path, columns), path))
    return files


def test_no_loader_runs_any_of_them(places, tmp_path):
    mark = tmp_path / "executed"
    every = bombs(mark)
    assert len(every) >= 30
    for load, path in places:
        whole = path.read_bytes()
        for name, content in every.items():
            path.write_bytes(content)
            with pytest.raises((GampsError, ValueError, RecursionError)) as caught:
                load()
            if path.name != "description.json":  # there the reader of JSON itself speaks
                assert isinstance(caught.value, GampsError), (name, path.name)
            assert not mark.exists(), (name, path.name)
        path.write_bytes(whole)


def test_resealed_programs_are_refused_too(tmp_path):
    """The hash is right, the content is not: a policy that someone made on purpose."""
    mark = tmp_path / "executed"
    policy = write.export(tanks.policy(), LOG, tmp_path / "policy")
    sound = {name: (policy / name).read_bytes() for name in (HEADER, ACT)}
    for name, content in bombs(mark).items():
        for file in sound:
            atomic_io.write_folder(tmp_path / "bad", TITLE, sound | {file: content})
            with pytest.raises(GampsError):
                load_policy(tmp_path / "bad")
            assert not mark.exists(), name


def test_a_program_that_calls_out_is_refused(tmp_path):
    """A factorisation is done by a library of the process: a call out of the program."""

    def calls(observation):
        return jax.numpy.linalg.qr(jax.numpy.outer(observation, observation))[0][0]

    seen = jax.ShapeDtypeStruct((2,), LOG.observations.dtype)
    content = bytes(jax.export.export(jax.jit(calls))(seen).serialize())
    policy = write.export(tanks.policy(), LOG, tmp_path / "policy")
    sound = {name: (policy / name).read_bytes() for name in (HEADER, ACT)}
    atomic_io.write_folder(tmp_path / "bad", TITLE, sound | {ACT: content})
    with pytest.raises(GampsError, match="calls code outside"):
        load_policy(tmp_path / "bad")


def test_no_pickle_is_imported_anywhere():
    banned = ("pickl" + "e", "marshal", "shelve", "dill", "cloudpickl" + "e", "joblib")
    for path in Path(gamps.__file__).parent.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.replace(",", " ").replace(".", " ").split()
            if words[:1] in (["import"], ["from"]):
                assert not set(banned) & set(words), f"{path.name}: {line}"
            assert "allow_pickle=True" not in line
            assert "eval(" not in line.replace("_eval(", ""), f"{path.name}: {line}"
