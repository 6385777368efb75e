"""HTML pages and exported models: a report of runs, a page that runs a model, a folder of ONNX graphs."""
