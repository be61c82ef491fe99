# Pretraining of Llama 3 70B, as a recipe for Megatron Bridge.
from megatron.bridge.recipes.llama import llama3_70b_pretrain_config
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.config import ConfigContainer


def pretrain_config(global_batch_size: int = 128, sequence_length: int = 8_192) -> ConfigContainer:
    """The performance recipe: see `docs`, "FP8"."""
    cfg = llama3_70b_pretrain_config()

    # Parallelism
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.pipeline_model_parallel_size = 2
    cfg.model.virtual_pipeline_model_parallel_size = 4
    cfg.model.context_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.model.seq_length = sequence_length
    cfg.model.recompute_granularity = None
    cfg.model.bf16 = True
    cfg.model.hidden_dropout = 0.0
    cfg.model.attention_dropout = 0.0

    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = global_batch_size
    cfg.train.train_iters = 1_000
    cfg.optimizer.lr = 3e-4
    cfg.ddp.use_distributed_optimizer = True
    cfg.ddp.overlap_grad_reduce = True
    cfg.comm_overlap = CommOverlapConfig(
        tp_comm_overlap=True,
        tp_comm_bootstrap_backend="nccl",
    )
    return cfg
