"""Makes a few tests for each kind of an operator, the same ones every time.

The generator of tosa-tools knows a hundred thousand tests; it lists them quickly and takes its time over the data of each. So we list
all, choose, and write only the chosen ones: a folder a test with desc.json, test.tosa and input-N.npy.
"""

import contextlib
import io
import random

from conformance import model_files
from generator import tosa_verif_build_tests
from generator.tosa_test_gen import TosaTestGen
from generator.tosa_test_select import TosaTestSelect

DIMENSIONS = "1,20"
# The verifier judges sums statistically, so the generator makes float tests of them only for shapes with enough results.
SUMS = {"matmul", "matmul_t", "conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d", "avg_pool2d", "reduce_sum"}
SUMS |= {"matmul_t_block_scaled", "conv2d_block_scaled"}
# Volumes of that extent have results enough at a fraction of the work.
DIMENSIONS_OF = {"conv3d": "6,20"}
DIMENSIONS_OF_SUMS = "16,40"


def kind(test):
    """Tests of one kind differ in shapes and values only, or break the same rule."""
    if test.isError():
        return test.error
    details = [str(test.argsDict.get(key)) for key in ("acc_type", "out_type", "mode", "td_type")]
    return (*map(str, test.dtypeList), *details)


def choose(tests, count, chance):
    """`count` tests of each kind."""
    kinds = {}
    for test in tests:
        kinds.setdefault(kind(test), []).append(test)
    for alike in kinds.values():
        yield from chance.sample(alike, min(count, len(alike)))


def make(folder, operator, choice):
    """Writes the tests of an operator somewhere under `folder`."""
    dimensions = DIMENSIONS_OF.get(operator, DIMENSIONS_OF_SUMS if operator in SUMS else DIMENSIONS)
    arguments = ["-o", str(folder), "--seed", str(choice.seed), "--tosa-version", choice.version, "--tensor-dim-range", dimensions]
    arguments += ["--profile", *choice.profiles, "--extension", *(choice.extensions or ["none"])]
    arguments = tosa_verif_build_tests.parseArgs(arguments)
    arguments.generate_lib_path = model_files.find_tosa_file(model_files.TosaFileType.GENERATE_LIBRARY, None, False)
    generator = TosaTestGen(arguments, tosa_verif_build_tests._get_tosa_version(choice.version))
    for name in generator.TOSA_OP_LIST:
        if generator.getOperatorNameStr(name) != operator:
            continue
        chance = random.Random(f"{choice.seed} {name}")
        for sign, count in (("positive", choice.per_kind), ("negative", 1)):
            listed = generator.genOpTestList(name, shapeFilter=arguments.target_shapes, testType=sign)
            listed = [TosaTestSelect(test) for test in listed]
            listed = [test for test in listed if test.isSupported(arguments.profile, arguments.extension)]
            for test in choose(listed, count, chance):
                with contextlib.redirect_stdout(io.StringIO()):
                    generator.serializeTest(test)
