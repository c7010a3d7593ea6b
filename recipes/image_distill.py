"""Labels for pictures by a small model that learns from a large one too.

    python recipes/image_distill.py --config configs/image_distill/vit_tiny.yaml \
        --data.train PICTURES --distill.teacher RUN

is the same run as `zoo train image_distill/vit_tiny --data.train PICTURES --distill.teacher RUN`.
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
    """The student: the model of the config, for these labels."""
    return training.build(config, splits.labels, splits.target, scale=splits.scale)


def loaders(config, splits, model):
    """Batches of {"pixels": (B, C, H, W), "target": (B,)}, as this model takes them."""
    return data.Batches(splits, model.record.preprocess, config)


def main(config):
    """Data -> student -> task with a teacher -> trainer. Nothing is written before the `with`."""
    seed_everything(config.run.seed, verbose=False)
    rows = splits(config)
    model = build(config, rows)
    batches = loaders(config, rows, model)
    task = training.Distil(model, config, training.teacher_for(config, model))
    with training.Run(config, model, rows) as run:
        trainer = training.trainer(config, run)
        trainer.fit(task, datamodule=batches, ckpt_path=run.resumes)
        return run.finish(trainer, task, batches)


if __name__ == "__main__":
    from zoo import cli

    raise SystemExit(cli.script(main))
