"""A photo in, faces out: what stands before and after the short-range face detector.

    face.py prep PHOTO IN.npy              the 1x128x128x3 float tensor that the model takes
    face.py decode PHOTO OUT.npy OUT.npy   the boxes in pixels of the photo, as JSON on standard output
    face.py report PHOTO INFO.json RUN.json [--json]
                                           the same, from what `accelctl info` and `accelctl run` told, with device and time

The detector answers for 896 anchors: two for each cell of a 16x16 grid (stride 8) and six for each cell of an 8x8 grid (three
layers of stride 16). Every anchor gives a score and 16 numbers: the box's centre and size in pixels of the 128x128 input,
relative to the anchor's centre, then six points (eyes, nose, mouth, ears) in the same way.
"""

import json
import sys

import numpy as np
from PIL import Image, ImageOps

SIDE = 128
STRIDES = [8, 16, 16, 16]
ANCHORS_PER_LAYER = 2
MIN_SCORE = 0.5
MAX_OVERLAP = 0.3


def open_photo(path):
    """The photo upright and in colour."""
    return ImageOps.exif_transpose(Image.open(path)).convert("RGB")


def letterbox(width, height):
    """Side of the square that holds the whole photo, and the photo's corner in it, all in photo pixels."""
    side = max(width, height)
    return side, (side - width) // 2, (side - height) // 2


def prepare(photo):
    side, left, top = letterbox(*photo.size)
    square = Image.new("RGB", (side, side))
    square.paste(photo, (left, top))
    small = np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32)
    return (small / 127.5 - 1.0)[None]


def anchor_centres():
    """896 centres as (x, y) in 0..1, in the order of the model's outputs: neighbouring layers of one stride are interleaved."""
    centres = []
    for stride in sorted(set(STRIDES)):
        cells = SIDE // stride
        repeat = ANCHORS_PER_LAYER * STRIDES.count(stride)
        centre = (np.arange(cells) + 0.5) / cells
        y, x = np.meshgrid(centre, centre, indexing="ij")
        centres.append(np.repeat(np.stack([x.ravel(), y.ravel()], 1), repeat, 0))
    return np.concatenate(centres)


def overlap(box, others):
    """Intersection over union of one box with many; a box is left, top, right, bottom."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), 1)
    area = np.prod(others[:, 2:] - others[:, :2], 1)
    return shared / (np.prod(box[2:] - box[:2]) + area - shared)


def detect(regressors, logits):
    """Boxes (left, top, right, bottom in 0..1 of the square) and scores, the surest first.

    Boxes that overlap describe one face: they are averaged, weighted by their scores.
    """
    scores = 1 / (1 + np.exp(-np.clip(logits.reshape(-1).astype(np.float64), -100, 100)))
    raw = regressors.reshape(-1, 16).astype(np.float64) / SIDE
    centre = raw[:, 0:2] + anchor_centres()
    boxes = np.concatenate([centre - raw[:, 2:4] / 2, centre + raw[:, 2:4] / 2], 1)

    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] >= MIN_SCORE]
    faces = []
    while order.size:
        same = overlap(boxes[order[0]], boxes[order]) > MAX_OVERLAP
        same[0] = True
        group = order[same]
        faces.append((np.average(boxes[group], 0, scores[group]), scores[order[0]]))
        order = order[~same]
    return faces


def decode(photo, outputs):
    """The faces as {left, top, right, bottom, score}, boxes in photo pixels. The two outputs are told apart by their shapes."""
    by_width = {output.shape[-1]: output for output in outputs}
    if set(by_width) != {16, 1}:
        raise SystemExit(
            f"face.py: the detector's two outputs end in 16 and in 1 numbers an anchor; these have the shapes "
            f"{[output.shape for output in outputs]}. Pass both files of one run."
        )
    if not all(np.isfinite(output).all() for output in outputs):
        raise SystemExit("face.py: the detector's outputs hold values that are no finite numbers; the run itself went wrong.")
    width, height = photo.size
    side, left, top = letterbox(width, height)
    faces = []
    for box, score in detect(by_width[16], by_width[1]):
        pixels = np.clip(box * side - [left, top, left, top], 0, [width, height, width, height])
        faces.append(dict(zip(["left", "top", "right", "bottom"], pixels.round(1).tolist()), score=round(float(score), 4)))
    return faces


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def report(photo_path, info, run, as_json):
    photo = open_photo(photo_path)
    faces = decode(photo, [np.load(output["file"]) for output in run["outputs"]])
    times = run["times"]
    if as_json:
        print(json.dumps({"photo": photo_path, "device": info["name"], "faces": faces, "times": times}, indent=1))
        return
    print(f"{photo_path} ({photo.width} x {photo.height} pixels): {len(faces) or 'no'} face{'' if len(faces) == 1 else 's'} found")
    for face in faces:
        print("  from ({left}, {top}) to ({right}, {bottom}), {percent:.0f} % sure".format(**face, percent=100 * face["score"]))
    gpu = times.get("gpu_median_ms")
    on_device = f", {gpu:.1f} ms of it on the device" if gpu is not None else ""
    print(
        f"on {info['name']}: {times['execute_median_ms']:.1f} ms a run (middle of {run['repeat']}){on_device}; "
        f"loading the model took {times['load_ms']:.0f} ms"
    )


def main(arguments):
    match arguments:
        case ["prep", photo, tensor]:
            np.save(tensor, prepare(open_photo(photo)))
        case ["decode", photo, *outputs] if len(outputs) == 2:
            print(json.dumps(decode(open_photo(photo), [np.load(output) for output in outputs])))
        case ["report", photo, info, run, *options] if options in ([], ["--json"]):
            report(photo, load(info), load(run), bool(options))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
