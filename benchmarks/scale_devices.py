"""What does an update of a large table cost, and how would it be divided among devices? 50 ordinal questions.

    python -m benchmarks.scale_devices [--quick] [--devices 1,2,8] [--rows 1000000000 --gpus 64]

The program is that of the pass over all rows (86 hidden units, 43 factors, as two million rows have them). "flops" and
"bytes" are those of one update on one device, as XLA counts them; "sums" are the bytes of one update that devices add
up, and "moved" those of its other exchanges, read from the compiled program; all of them for numbers of devices that
this script makes of the CPU. "ms" is the time of an update here, on the first device. The model is

    seconds of an update = start + rows / devices · per_row + (devices > 1) · (exchanges · latency
                           + (2 · sums + moved) · (devices − 1) / devices / bandwidth),

with `start` and `per_row` by least squares of relative errors; "predicted" is what the other batches say about one.
`read` are rows that one process reads from a Parquet file and encodes in a second. At the end it says what --rows on
--gpus devices like the first one here would take for each batch, with two members, beside the fit to the sample;
--latency (s) and --bandwidth (bytes/s) are assumptions about the network. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.scale_rows import N_LEVELS, NAMES, file

SIZE, N_MEMBERS = (86, 43), 2
BATCHES, QUICK = (512, 2048, 8192, 32_768), (512, 2048, 8192)
BYTES = {"pred": 1, "s8": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4}
EXCHANGE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?\(")


class Pass:
    """The pass over the rows of a file in batches of some size, on some devices."""

    def __init__(self, path: Path, batch: int, n_devices: int) -> None:
        import jax

        import thurbo as tb
        from thurbo import parallel
        from thurbo.fit import members, planning
        from thurbo.fit.fitting import Data
        from thurbo.fit.stream import RowReading, Stream, WholeTable
        from thurbo.fit.trainer import Schedule
        from thurbo.latent import packing
        from thurbo.predict.model import MemberSettings

        scan = tb.scan(path)
        table = scan.take(np.arange(2000))
        schema = tb.Schema({name: tb.Ordinal(range(1, N_LEVELS + 1)) for name in NAMES}).fit(table)
        blocks = schema.compile(table)
        evidence = packing.pack(blocks.values(), "marginalize", most_widths=0)
        data = Data(schema, blocks, evidence, np.ones(table.n_rows))
        self.devices, reading = parallel.chosen(n_devices), RowReading("given", data)
        whole = WholeTable(scan, np.arange(table.n_rows), devices=self.devices, batch=batch)
        began = time.perf_counter()
        whole.read([reading], {})
        self.read = scan.n_rows / (time.perf_counter() - began)
        stream = Stream(whole, reading, 0, "marginalize")
        chosen = replace(planning.flat(tb.TBM().get_params(deep=False)), objective="multi-prediction")
        own = members.Shared(chosen, data, SIZE, None)
        state, layout = own.start(jax.random.key(0), MemberSettings(*SIZE, 0.03))
        rows, self.n_updates = stream._made(0)
        schedule = Schedule(np.float32(1e-3), np.float32(1e6), np.float32(2e6))
        arrays = jax.random.key(0), state, stream._patterns, rows, np.int32(self.n_updates), layout, schedule
        arrays = (*self.devices.everywhere(arrays[:3]), rows, *arrays[4:])
        self.arguments = *arrays, replace(own.plan, in_order=True), reading.slots, batch
        stream.close()

    def compiled(self) -> Any:
        """The program as XLA compiles it for much work."""
        from thurbo.fit import trainer

        with self.devices.using():
            return trainer.pass_over._traced["long"].lower(*self.arguments).compile()

    def seconds(self, program: Any) -> float:
        """Shortest time of one update, of three passes over the pool."""
        import jax

        arrays, times = self.arguments[:-3], []
        for _ in range(4):
            began = time.perf_counter()
            jax.block_until_ready(program(*arrays))
            times.append((time.perf_counter() - began) / self.n_updates)
        return min(times[1:])


def exchanges(text: str) -> dict[str, int]:
    """Number of exchanges between devices in a compiled program, and bytes of their results by kind."""
    found = {"exchanges": 0, "sums": 0, "moved": 0}
    for shapes, kind, _ in EXCHANGE.findall(text):
        n_bytes = 0
        for name, shape in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
            n_bytes += BYTES.get(name, 4) * int(np.prod([int(each) for each in shape.split(",") if each], initial=1))
        found["exchanges"] += 1
        found["sums" if kind == "all-reduce" else "moved"] += n_bytes
    return found


def one(path: Path, batch: int, n_devices: int, is_timed: bool) -> dict[str, Any]:
    """Counts, and if wanted the time, of one program."""
    import jax

    if n_devices > 1:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", n_devices)
    own = Pass(path, batch, n_devices)
    program = own.compiled()
    cost = program.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    found: dict[str, Any] = {"batch": batch, "devices": n_devices, "read": own.read, **exchanges(program.as_text())}
    found |= {"flops": float(cost.get("flops", np.nan)), "bytes": float(cost.get("bytes accessed", np.nan))}
    if is_timed:
        found |= {"ms": 1e3 * own.seconds(program), "device": jax.devices()[0].device_kind}
    return found


def _apart(path: Path, batch: int, n_devices: int, is_timed: bool) -> dict[str, Any]:
    """`one` in a process of its own."""
    asked = f"{path},{batch},{n_devices},{int(is_timed)}"
    command = [sys.executable, "-m", "benchmarks.scale_devices", "--one", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class Model:
    """Seconds of an update from the rows of its batch and the number of devices."""

    def __init__(self, measured: list[dict[str, Any]], counts: dict[str, Any], latency: float, bandwidth: float):
        rows, seconds = (np.asarray([each[name] for each in measured]) for name in ("batch", "ms"))
        terms = np.stack([np.ones(len(rows)), rows], axis=1) / seconds[:, None]
        (self.start, self.per_row), _ = nnls(terms, np.full(len(rows), 1e-3))
        self.counts, self.latency, self.bandwidth = counts, latency, bandwidth

    def seconds(self, batch: int, devices: int) -> float:
        """Seconds of an update; what is exchanged beside sums is in proportion to the batch."""
        found = self.start + batch / devices * self.per_row
        if devices > 1:
            n_bytes = 2 * self.counts["sums"] + self.counts["moved"] * batch / self.counts["batch"]
            part = n_bytes * (devices - 1) / devices
            found += self.counts["exchanges"] * self.latency + part / self.bandwidth
        return found


def main() -> None:
    """Print tables for people and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no batch of 32,768 rows")
    parser.add_argument("--devices", default="2,8", help="numbers of devices for which exchanges are counted")
    parser.add_argument("--rows", type=float, default=1e9, help="rows of the table that is thought of")
    parser.add_argument("--gpus", type=int, default=64, help="devices that it would be fitted on")
    parser.add_argument("--latency", type=float, default=2e-5, help="seconds of an exchange, assumed")
    parser.add_argument("--bandwidth", type=float, default=2.5e10, help="bytes a second of a device's link, assumed")
    parser.add_argument("--one", help="path, batch, devices and whether it is timed, in this process")
    asked = parser.parse_args()
    if asked.one:
        path, *numbers = asked.one.split(",")
        batch, n_devices, is_timed = map(int, numbers)
        print(json.dumps(one(Path(path), batch, n_devices, bool(is_timed))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = file(Path(folder), 1 << 16)
        timed = [_apart(path, batch, 1, True) for batch in (QUICK if asked.quick else BATCHES)]
        counted = [_apart(path, 512, int(each), False) for each in asked.devices.split(",")]
    model = Model(timed, counted[-1], asked.latency, asked.bandwidth)
    print(f"one device: {timed[0]['device']}\n batch  MFLOP      MB      ms  predicted")
    for place, each in enumerate(timed):
        others = Model(timed[:place] + timed[place + 1 :], counted[-1], asked.latency, asked.bandwidth)
        each["predicted"] = 1e3 * others.seconds(each["batch"], 1)
        line = f"{each['batch']:6d} {each['flops'] / 1e6:6.0f} {each['bytes'] / 1e6:7.1f} {each['ms']:7.3f}"
        print(f"{line} {each['predicted']:10.3f}")
    print("\nbatch of 512 rows\n devices  MFLOP on each  exchanges  kB of sums  kB moved")
    for each in counted:
        line = f"{each['devices']:8d} {each['flops'] / 1e6:14.1f} {each['exchanges']:10d} {each['sums'] / 1e3:11.1f}"
        print(f"{line} {each['moved'] / 1e3:9.1f}")
    read = float(np.median([each["read"] for each in timed]))
    print(f"\nrows read a second by a process: {read:,.0f}")
    print(f"{asked.rows:g} rows on {asked.gpus} devices, {N_MEMBERS} members")
    print(f"assumed: {asked.latency:g} s for an exchange, {asked.bandwidth:g} bytes a second")
    print(" batch  reading s  updates  ms each  learning s")
    planned = []
    for batch in (512, 2048, 8192, 32_768):
        updates, seconds = int(np.ceil(asked.rows / batch)), model.seconds(batch, asked.gpus)
        own = {"batch": batch, "reading": asked.rows / asked.gpus / read, "updates": updates, "update": seconds}
        planned.append({**own, "learning": N_MEMBERS * updates * seconds})
        line = f"{batch:6d} {own['reading']:10.0f} {updates:8d} {1e3 * seconds:8.3f}"
        print(f"{line} {planned[-1]['learning']:11.0f}")
    about = {"start": model.start, "per_row": model.per_row, "read": read, "rows": asked.rows, "devices": asked.gpus}
    print(json.dumps({**about, "timed": timed, "counted": counted, "planned": planned}))


if __name__ == "__main__":
    main()
