"""Experience in files: what agents saw, did and got, in shards of safetensors with a JSON index."""
