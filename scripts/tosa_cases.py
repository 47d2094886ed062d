"""Makes directed TOSA tests with the official generator, a few for each operator and type, the same ones every time.

The generator of tosa-tools knows a hundred thousand tests; it lists them quickly and takes its time over the data of each. So we list
all, choose, and write only the chosen ones: a folder a test with desc.json, test.tosa and input-N.npy.
"""

import contextlib
import io
import random
from pathlib import Path

from conformance import model_files
from generator import tosa_verif_build_tests
from generator.tosa_test_gen import TosaTestGen
from generator.tosa_test_select import TosaTestSelect

VERSION = "1.0.2"
EXTENSIONS = ["tosa-ext-doubleround", "tosa-ext-fft"]
DIMENSIONS = "1,20"
# The verifier judges sums statistically, so the generator makes float tests of them only for shapes with enough results.
SUMS = {"matmul", "conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d", "avg_pool2d", "reduce_sum"}
# Volumes of that extent have results enough at a fraction of the work.
DIMENSIONS_OF = {"conv3d": "6,20"}
DIMENSIONS_OF_SUMS = "16,40"


def kind(test):
    """Tests of one kind differ in shapes and values only, or break the same rule."""
    if test.isError():
        return test.error
    details = [str(test.argsDict.get(key)) for key in ("acc_type", "out_type", "mode", "td_type")]
    return (*map(str, test.dtypeList), *details)


def choose(tests, count, generator):
    """`count` tests of each kind."""
    kinds = {}
    for test in tests:
        kinds.setdefault(kind(test), []).append(test)
    for alike in kinds.values():
        yield from generator.sample(alike, min(count, len(alike)))


def make(folder, operator, per_kind, seed=42):
    """Writes the tests of an operator somewhere under `folder`; returns how many."""
    dimensions = DIMENSIONS_OF.get(operator, DIMENSIONS_OF_SUMS if operator in SUMS else DIMENSIONS)
    arguments = ["-o", str(folder), "--seed", str(seed), "--tosa-version", VERSION, "--tensor-dim-range", dimensions]
    arguments = tosa_verif_build_tests.parseArgs([*arguments, "--extension", *EXTENSIONS])
    arguments.generate_lib_path = model_files.find_tosa_file(model_files.TosaFileType.GENERATE_LIBRARY, None, False)
    Path(folder).mkdir(parents=True, exist_ok=True)
    generator = TosaTestGen(arguments, tosa_verif_build_tests._get_tosa_version(VERSION))
    made = 0
    for name in generator.TOSA_OP_LIST:
        if generator.getOperatorNameStr(name) != operator:
            continue
        chance = random.Random(f"{seed} {name}")
        for sign, count in (("positive", per_kind), ("negative", 1)):
            listed = generator.genOpTestList(name, shapeFilter=arguments.target_shapes, testType=sign)
            listed = [TosaTestSelect(test) for test in listed]
            listed = [test for test in listed if test.isSupported(arguments.profile, arguments.extension)]
            for test in choose(listed, count, chance):
                with contextlib.redirect_stdout(io.StringIO()):
                    made += bool(generator.serializeTest(test))
    return made
