"""The next values of one column of a table, from the rows before.

    python recipes/series_forecast.py --config configs/series_forecast/small_scratch.yaml \
        --data.train TABLE --data.label COLUMN

is the same run as `zoo train series_forecast/small_scratch --data.train TABLE --data.label COLUMN`.
"""

from lightning import seed_everything

from zoo import data, inputs, training


def splits(config):
    """Windows of the past, what follows each, and which are for training, choosing, testing."""
    return data.splits(config.data, config.run.seed, "series")


def held_out(config, labels):
    """The windows of the test table alone, for what a model forecasts."""
    return data.held_out(config.data, labels, "series")


def build(config, splits):
    """The model of the config, for these columns."""
    prepare = inputs.series(config.data, splits)
    return training.build(config, splits.labels, splits.target, prepare, splits.scale)


def loaders(config, splits, model):
    """Batches of {"frames": (B, past, C), "target": (B, ahead), "start", "unit": (B, 1)}."""
    return training.cached(data.Batches(splits, model.record.preprocess, config), model)


def main(config):
    """Data -> model -> task -> trainer. Nothing is written before the `with`."""
    seed_everything(config.run.seed, verbose=False)
    rows = splits(config)
    model = build(config, rows)
    batches = loaders(config, rows, model)
    task = training.Task(model, config)
    with training.Run(config, model, rows) as run:
        trainer = training.trainer(config, run)
        trainer.fit(task, datamodule=batches, ckpt_path=run.resumes)
        return run.finish(trainer, task, batches)


if __name__ == "__main__":
    from zoo import cli

    raise SystemExit(cli.script(main))
