"""What samples answers: Hugging Face models, vLLM, servers over HTTP; and checks that they do."""
