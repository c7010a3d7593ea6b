"""Labels or numbers for texts, from a table with a column of each.

    python recipes/text_classify.py --config configs/text_classify/small_scratch.yaml \
        --data.train TABLE

is the same run as `zoo train text_classify/small_scratch --data.train TABLE`.
"""

from lightning import seed_everything

from zoo import data, inputs, training


def splits(config):
    """Labels, and which texts are for training, choosing and testing; every row is checked."""
    return data.splits(config.data, config.run.seed, "text")


def held_out(config, labels):
    """The test texts alone, under the labels of a model."""
    return data.held_out(config.data, labels, "text")


def build(config, splits):
    """The model of the config, for these labels."""
    prepare = inputs.text(config.data, splits)
    return training.build(config, splits.labels, splits.target, prepare, splits.scale)


def loaders(config, splits, model):
    """Batches of {"ids": (B, T), "keep": (B, T), "target": (B,)}, as this model takes them."""
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
