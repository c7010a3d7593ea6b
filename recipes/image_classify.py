"""Labels or numbers for pictures, from a folder of class folders, or a table.

    python recipes/image_classify.py --config configs/image_classify/vit_tiny_scratch.yaml \
        --data.train PICTURES

is the same run as `zoo train image_classify/vit_tiny_scratch --data.train PICTURES`.
"""

from lightning import seed_everything

from zoo import data, training


def splits(config):
    """Labels, and which pictures are for training, choosing and testing; every file is checked."""
    return data.splits(config.data, config.run.seed, "picture")


def held_out(config, labels):
    """The test pictures alone, under the labels of a model."""
    return data.held_out(config.data, labels, "picture")


def build(config, splits):
    """The model of the config, for these labels."""
    return training.build(config, splits.labels, splits.target, scale=splits.scale)


def loaders(config, splits, model):
    """Batches of {"pixels": (B, C, H, W), "target": (B,)}, as this model takes them."""
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
