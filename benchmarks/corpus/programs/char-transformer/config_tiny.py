# overrides of the defaults in train.py
n_layer = 2
n_head = 2
n_embd = 64
block_size = 32
batch_size = 12
dropout = 0.0
