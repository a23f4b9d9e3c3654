"""The pocket target: tokenizer, corpus, model, training, NVFP4 export, measurement."""
