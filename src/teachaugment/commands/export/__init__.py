"""``teachaugment export``: what a run has learned, as files to take along; and the formats of a network, by name.

A format's module has ``content(deployed, about) -> bytes`` and ``outputs(content, model, image) -> Tensor``, which runs
what was made.
"""

from __future__ import annotations

from dataclasses import dataclass

from teachaugment.tables import Entry, Table


@dataclass(frozen=True)
class Format(Entry):
    """One line of the table."""

    ending: str = ""  # of its files
    use: str = ""  # how its files are used, for the model card
    traced: bool = True  # the network's own program is in it


ONNX = """\
```python
import json, numpy, onnxruntime

session = onnxruntime.InferenceSession("{file}")
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
images = numpy.zeros({shape}, "float32")  # any number of RGB images in [0, 1]; they are normalised inside
({gives},) = session.run(None, {{"image": images}})
```"""
SAFETENSORS = """\
```python
import json, safetensors, torch
{imports}

with safetensors.safe_open("{file}", "pt") as opened:
    about = {{key: json.loads(text) for key, text in opened.metadata().items() if key != "format"}}
    weights = {{name: opened.get_tensor(name) for name in opened.keys()}}
network = {network}
network.load_state_dict(weights)
network.eval()

mean, std = (torch.tensor(about[name]).view(-1, 1, 1) for name in ("mean", "std"))
images = torch.zeros{shape}  # any number of RGB images in [0, 1]
with torch.no_grad():
    {gives} = network((images - mean) / std){output_code}  # of about["classes"]
```"""
TORCHSCRIPT = """\
```python
import json, torch

files = {{"about.json": ""}}
network = torch.jit.load("{file}", _extra_files=files)  # in C++: torch::jit::load
classes = json.loads(files["about.json"])["classes"]
{gives} = network(torch.zeros{shape})  # any number of RGB images in [0, 1]; they are normalised inside
```"""
PT2 = """\
```python
import json, torch

files = {{"about.json": ""}}
network = torch.export.load("{file}", extra_files=files).module()
classes = json.loads(files["about.json"])["classes"]
{gives} = network(torch.zeros{shape})  # any number of RGB images in [0, 1]; they are normalised inside
```"""

FORMATS: Table[Format] = Table(
    "format",
    __name__,
    {
        "onnx": Format("onnx", "for ONNX Runtime and others", ".onnx", ONNX),
        "safetensors": Format(
            "safetensors", "the weights, for the plain network", ".safetensors", SAFETENSORS, traced=False
        ),
        "torchscript": Format("torchscript", "for C++ and older PyTorch", ".pt", TORCHSCRIPT),
        "pt2": Format("pt2", "torch.export's, which follows TorchScript", ".pt2", PT2),
    },
)
