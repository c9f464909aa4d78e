import configparser
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error, r2_score

# params.ini, and then section.name=value on the command line
config = configparser.ConfigParser()
config.read(sys.argv[1])
for word in sys.argv[2:]:
    name, value = word.split("=")
    section, key = name.split(".")
    config[section][key] = value
data, boost = config["data"], config["boosting"]

rng = np.random.default_rng(12)
rows, columns = data.getint("rows"), data.getint("columns")
X = rng.uniform(-1, 1, size=(rows, columns))
X[rng.random(X.shape) < 0.02] = np.nan
clean = np.nan_to_num(X)
y = (
    10 * np.sin(np.pi * clean[:, 0] * clean[:, 1]) + 20 * clean[:, 2] ** 2 + 10 * clean[:, 3] + 5 * clean[:, 4]
    + data.getfloat("noise") * rng.standard_normal(rows)
)
split = rows * 4 // 5

model = HistGradientBoostingRegressor(
    max_iter=boost.getint("rounds"),
    max_leaf_nodes=boost.getint("leaves"),
    learning_rate=boost.getfloat("learning_rate"),
    max_bins=boost.getint("bins"),
    early_stopping=False,
)
model.fit(X[:split], y[:split])
predicted = model.predict(X[split:])
print(f"trees {model.n_iter_}")
print(f"R2 {r2_score(y[split:], predicted):.4f}  MAE {mean_absolute_error(y[split:], predicted):.4f}")
