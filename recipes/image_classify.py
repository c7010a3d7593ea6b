"""One label per picture, from a folder with one sub-folder of pictures per class.

    python recipes/image_classify.py --config configs/image_classify/vit_tiny_scratch.yaml \
        --data.train PICTURES

is the same run as `zoo train image_classify/vit_tiny_scratch --data.train PICTURES`.
"""

from lightning import seed_everything

from zoo import data, training


def splits(config):
    """Labels, and which pictures are for training, choosing and testing; every file is checked."""
    return data.image_folder(config.data, seed=config.run.seed)


def held_out(config, labels):
    """The test pictures alone, under the labels of a model."""
    return data.evaluation_folder(config.data.test, labels, config.data.on_bad)


def loaders(config, splits, model):
    """Batches of {"pixels": (B, C, H, W), "target": (B,)}, as this model takes them."""
    return data.Batches(splits, model.record.preprocess, config)


def main(config):
    """Data -> model -> task -> trainer. Nothing is written before the `with`."""
    seed_everything(config.run.seed, verbose=False)
    rows = splits(config)
    model = training.build(config, labels=rows.labels)
    batches = loaders(config, rows, model)
    task = training.Task(model, config)
    with training.Run(config, model, rows) as run:
        trainer = training.trainer(config, run)
        trainer.fit(task, datamodule=batches)
        return run.finish(trainer, task, batches)


if __name__ == "__main__":
    from zoo import cli

    raise SystemExit(cli.script(main))
