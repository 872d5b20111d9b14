"""Several devices and several processes: where arrays are, and what processes agree on.

Idea: the rows of a batch are divided among the devices of a mesh, and parameters are on all of them. The learner only
says which arrays have rows (`by_row`) and which are the same everywhere; the compiler adds the sums over devices.
Between two calls of such a program everything is local to a process again, so all other code is that of one device.
Guarantees random numbers of a row that do not depend on the number of devices, and that an error of one process ends
all of them.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from thurbo import _runtime as _runtime  # before anything is computed
from thurbo.errors import ThurboError

__all__ = ["initialize", "is_first"]

T = TypeVar("T")
ROW = "row"  # the axis of the mesh


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    **options: Any,
) -> None:
    """Make this process one of several that fit a model together; call it before anything else uses JAX.

    Every process then runs the same program, with the same table: `tb.scan(...)`, of which each reads its own rows.
    They end up with the same model, and only the first one writes files.

    Parameters
    ----------
    coordinator_address : str, optional
        Address and port of the first process, such as "10.0.0.1:1234". By default this and the next two are found out
        from the launcher: Slurm, Open MPI, Kubernetes (an indexed Job), or Cloud TPU.
    num_processes, process_id : int, optional
        Number of processes, and that of this one, counted from 0.
    **options
        Other arguments of `jax.distributed.initialize`, such as `heartbeat_timeout_seconds` or
        `cluster_detection_method="mpi4py"`.

    Raises
    ------
    ThurboError
        If JAX has computed something before, or if the launcher is not known.
    """
    try:
        jax.distributed.initialize(coordinator_address, num_processes, process_id, **options)
        jax.devices()  # waits for all processes
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        remedy = "call tb.distributed.initialize() first, with coordinator_address, num_processes and process_id"
        raise ThurboError(f"cannot join the other processes: {reason}; {remedy}") from None


def is_first() -> bool:
    """Whether this is the process that writes files: the first of several, or the only one."""
    return not is_distributed() or jax.process_index() == 0


def is_distributed() -> bool:
    """Whether there are several processes."""
    return bool(jax.distributed.is_initialized()) and jax.process_count() > 1


class Devices:
    """Devices that a program runs on; batches are divided among several of them by their rows.

    If there are none, nothing is divided: arrays stay where JAX puts them.
    """

    def __init__(self, devices: Sequence[jax.Device] = ()) -> None:
        self.devices = sorted(devices, key=lambda each: (each.process_index, each.id))
        self._own = [each for each in self.devices if each.process_index == jax.process_index()]
        self.is_distributed = len(self._own) < len(self.devices)

    def __len__(self) -> int:
        return len(self.devices)

    @cached_property
    def _mesh(self) -> jax.sharding.Mesh:
        return jax.make_mesh((len(self),), (ROW,), (AxisType.Auto,), devices=self.devices)

    def only(self, place: int) -> Devices:
        """One of the devices of this process."""
        return Devices([self._own[place % self.n_own]]) if self._own else self

    @property
    def n_own(self) -> int:
        """Number of devices of this process."""
        return len(self._own)

    def using(self) -> AbstractContextManager[Any]:
        """In this context `by_row` and `same_everywhere` divide what programs compute."""
        return jax.set_mesh(self._mesh) if len(self) > 1 else nullcontext()

    def run(self, program: Callable[..., T], *arguments: Any) -> T:
        """What a program returns for arrays that are on the devices, brought back to the first one of this process."""
        try:
            with self.using():
                found = self._back(program(*arguments))
            return jax.block_until_ready(found) if self.is_distributed else found
        except jax.errors.JaxRuntimeError as error:
            if not self.is_distributed or "RESOURCE_EXHAUSTED" in str(error):  # out of memory, here
                raise
            raise _lost(error) from error

    def everywhere(self, tree: T) -> T:
        """Arrays with a copy on every device; each process gives its own."""
        if not self.devices:
            return tree
        if len(self) == 1:
            return jax.device_put(tree, self.devices[0])
        sharding = NamedSharding(self._mesh, PartitionSpec())
        if not self.is_distributed:
            return jax.device_put(tree, sharding)

        def one(leaf: Any) -> Any:
            copies = [jax.device_put(leaf, each) for each in self._own]
            return jax.make_array_from_single_device_arrays(np.shape(leaf), sharding, copies)

        return jax.tree.map(one, tree)

    def _back(self, tree: T) -> T:
        """Arrays of all devices as arrays of this process."""
        if not self.devices:
            return tree
        if len(self) == 1:
            return jax.device_put(tree, jax.local_devices(backend=self.devices[0].platform)[0])
        whole = jax.tree.map(lambda leaf: leaf if leaf.is_fully_replicated else self._gathered(leaf), tree)
        return jax.tree.map(lambda leaf: leaf.addressable_data(0), whole)

    @cached_property
    def _gathered(self) -> Callable[[Any], Any]:
        return jax.jit(lambda leaf: leaf, out_shardings=NamedSharding(self._mesh, PartitionSpec()))

    def padded(self, n_rows: int) -> int:
        """Number of rows of a batch when each device has as many."""
        return -(-n_rows // len(self)) * len(self)

    def own_rows(self, n_rows: int) -> tuple[int, int]:
        """The first and the last row, exclusive, of a padded batch that this process has."""
        if not self.devices:
            return 0, n_rows
        first, each = self.devices.index(self._own[0]), self.padded(n_rows) // len(self)
        return first * each, (first + len(self._own)) * each

    def batches(self, tree: T, n_rows: int) -> T:
        """Batches of rows [batch, row] from the rows that this process has."""
        if not self.devices:
            return jax.device_put(tree)
        sharding, n_rows = NamedSharding(self._mesh, PartitionSpec(None, ROW)), self.padded(n_rows)

        def one(leaf: Any) -> Any:
            shape = (leaf.shape[0], n_rows, *leaf.shape[2:])
            return jax.make_array_from_process_local_data(sharding, leaf, shape)

        return jax.tree.map(one, tree)


UNDIVIDED = Devices()


def chosen(devices: int | Literal["auto"]) -> Devices:
    """The devices of a fit, none if nothing is to be divided.

    "auto" is all devices of all processes, if there are several, and otherwise all GPUs or TPUs of this machine, if
    there are several; a number is that of the devices of each process.
    """
    if devices == "auto":
        several = is_distributed() or (jax.default_backend() != "cpu" and jax.local_device_count() > 1)
        return Devices(jax.devices()) if several else UNDIVIDED
    if devices > jax.local_device_count():
        kind, n_local = jax.default_backend(), jax.local_device_count()
        problem = f"devices={devices}, and JAX has {n_local} of kind {kind}"
        more = f'; jax.config.update("jax_num_cpu_devices", {devices}) before anything else makes more of a CPU'
        raise ThurboError(f"{problem}; give a smaller number{more if kind == 'cpu' else ''}")
    own = [each for number in range(jax.process_count()) for each in jax.local_devices(number)[:devices]]
    return Devices(own) if len(own) > 1 else UNDIVIDED


def by_row(tree: T) -> T:
    """Inside a program: arrays whose rows are divided among the devices that it runs on."""
    return _constrained(tree, PartitionSpec(ROW))


def same_everywhere(tree: T) -> T:
    """Inside a program: arrays that every device has as a whole."""
    return _constrained(tree, PartitionSpec())


def _constrained(tree: T, spec: PartitionSpec) -> T:
    if jax.sharding.get_abstract_mesh().empty:
        return tree
    return jax.lax.with_sharding_constraint(tree, spec)


def n_parts(n_rows: int, multiple: int) -> int:
    """Inside a program: into how many parts it divides rows; 1 unless each has a multiple of some number of rows."""
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if mesh.empty or n_rows % (multiple * mesh.size) else mesh.size


def in_parts(function: Callable[..., T], same: Any, axes: Any, *rowwise: Any) -> T:
    """Inside a program: `function(same, *rowwise)` of the rows of each device, whose results are put together by row.

    `axes` says which leaves of the trees `rowwise` have rows, in the form that `jax.vmap` takes.
    """
    specs = jax.tree.map(
        lambda axis: PartitionSpec() if axis is None else PartitionSpec(ROW), axes, is_leaf=lambda axis: axis is None
    )
    by = jax.shard_map(function, in_specs=(PartitionSpec(), *specs), out_specs=PartitionSpec(ROW), check_vma=False)
    return by(same, *rowwise)


def exchanged(own: bytes) -> list[bytes]:
    """What every process gives, in the order of the processes."""
    if not is_distributed():
        return [own]
    from jax.experimental.multihost_utils import process_allgather

    try:
        sizes = np.asarray(process_allgather(np.asarray(len(own), np.int32))).reshape(-1)
        padded = np.zeros(max(int(sizes.max()), 1), np.uint8)
        padded[: len(own)] = np.frombuffer(own, np.uint8)
        every = np.asarray(process_allgather(padded)).reshape(len(sizes), -1)
    except jax.errors.JaxRuntimeError as error:
        raise _lost(error) from error
    return [row[:size].tobytes() for row, size in zip(every, sizes, strict=True)]


def told(own: Any) -> list[Any]:
    """The same for values that JSON can hold."""
    return [json.loads(each) for each in exchanged(json.dumps(own).encode())] if is_distributed() else [own]


def agreed(tree: T) -> T:
    """The arrays of the first process; they have the same shapes in all."""
    if not is_distributed():
        return tree
    leaves, structure = jax.tree.flatten(tree)
    held = [np.asarray(leaf) for leaf in leaves]
    first, found, begin = exchanged(b"".join(each.tobytes() for each in held) if is_first() else b"")[0], [], 0
    for each in held:
        found.append(np.frombuffer(first, each.dtype, each.size, begin).reshape(each.shape))
        begin += each.nbytes
    return jax.tree.unflatten(structure, jax.device_put(found))


def same(what: str, mark: str) -> None:
    """Raise an error in all processes unless they give the same `mark`."""
    marks = told(mark)
    for number, each in enumerate(marks):
        if each != marks[0]:
            raise ThurboError(f"process {number} has {what} that differ from those of process 0; give all the same")


@contextmanager
def together() -> Iterator[None]:
    """An error inside is raised in all processes, so that none waits for one that has failed."""
    problem: Exception | None = None
    try:
        yield
    except Exception as error:
        problem = error
    for number, text in enumerate(told(None if problem is None else str(problem))):
        if text is not None and problem is None:
            raise ThurboError(f"process {number}: {text}")
    if problem is not None:
        raise problem


@contextmanager
def fitting(checkpoint: str | os.PathLike[str] | None) -> Iterator[str | os.PathLike[str] | None]:
    """The path of the checkpoint of a fit; a process that fails in it ends without waiting for the others.

    All processes resume from the files of the first one: the others have copies, which they do not keep.
    """
    if not is_distributed():
        yield checkpoint
        return
    try:
        with tempfile.TemporaryDirectory(prefix="thurbo-checkpoint-") as folder:
            yield checkpoint if checkpoint is None else _shared(Path(checkpoint), Path(folder))
    except BaseException:
        atexit.register(_leave)
        raise


def _shared(path: Path, folder: Path) -> Path:
    """The path of a checkpoint in the first process, and that of a copy in a folder in the others."""
    every = sorted(path.parent.iterdir()) if is_first() and path.parent.is_dir() else []
    own = [each for each in every if re.fullmatch(rf"{re.escape(path.name)}(\.\d+)?", each.name)]  # of all members
    for place, name in enumerate(told([each.name for each in own])[0]):
        content = exchanged(own[place].read_bytes() if is_first() else b"")[0]
        if not is_first():
            (folder / name).write_bytes(content)
    return path if is_first() else folder / path.name


def _lost(error: Exception) -> ThurboError:
    """What to raise when others are gone."""
    atexit.register(_leave)
    reason = " ".join(str(error).split())[:200].rstrip(".")
    problem = "another process of this fit has ended, or cannot be reached"
    remedy = "if checkpoint= was given, the same call resumes from it, with any number of processes"
    return ThurboError(f"{problem} ({reason}); {remedy}")


def _leave() -> None:
    """End this process; JAX would wait for the others, and they for this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)
