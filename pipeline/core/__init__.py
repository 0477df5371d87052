"""Pure computation: values in, values out. No files, no configuration, no transformers."""
