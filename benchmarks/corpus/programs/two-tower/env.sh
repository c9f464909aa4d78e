# what all jobs of the retrieval team share
export TOWER_DIM=64
export TOWER_TEMPERATURE=0.07
