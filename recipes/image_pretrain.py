"""A body that learns from pictures without labels, by telling hidden parts from the rest.

    python recipes/image_pretrain.py \
        --config configs/image_pretrain/vit_small_mae.yaml --data.train PICTURES

is the same run as `zoo train image_pretrain/vit_small_mae --data.train PICTURES`.
"""

from lightning import seed_everything

from zoo import data, training


def splits(config):
    """Which pictures are for training, choosing and testing; every file is checked."""
    return data.splits(config.data, config.run.seed, "unlabelled")


def held_out(config, labels):
    """The test pictures alone."""
    return data.held_out(config.data, labels, "unlabelled")


def build(config, splits):
    """The model of the config, whose head hides and rebuilds."""
    return training.build(config, splits.labels, splits.target)


def loaders(config, splits, model):
    """Batches of {"pixels": (B, C, H, W)}, as this model takes them."""
    return data.Batches(splits, model.record.preprocess, config)


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
