// Draws random models and plans that are valid. Longer than 400 lines: each choice narrows those
// after it, so all of them are drawn in one place.
#include "tests/sim/random_plans.h"

#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/modules_in.h"

namespace foretrain {
namespace {

ModelSpec RandomModel(std::mt19937_64& random) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  ModelSpec model;
  const bool llama = pick(0, 1) == 1;
  model.layers = pick(1, 5);
  model.head_dim = 2 * pick(1, 4);
  model.kv_heads = llama ? 4 : 8;
  model.heads = llama ? 4 * pick(1, 2) : 8;
  model.hidden = 8 * pick(1, 5);
  model.ffn_hidden = 4 * pick(2, 20);
  model.vocab = pick(5, 97);
  model.max_sequence = 16;
  model.norm = llama ? NormKind::kRmsNorm : NormKind::kLayerNorm;
  model.mlp = llama ? MlpKind::kSwiglu : MlpKind::kGelu;
  model.positions = llama ? PositionKind::kRope : PositionKind::kLearned;
  model.attention_bias = !llama || pick(0, 1) == 1;
  model.output_bias = !llama;
  model.mlp_bias = !llama;
  model.tied_embeddings = pick(0, 1) == 1;
  if (pick(0, 2) == 0) {
    model.experts = pick(1, 6);
    model.experts_per_token = pick(1, static_cast<int>(model.experts));
    model.expert_ffn_hidden = 4 * pick(1, 9);
    model.shared_ffn_hidden = 4 * pick(0, 5);
    model.first_dense_layers = pick(0, static_cast<int>(model.layers) - 1);
    model.router = pick(0, 1) == 1 ? RouterKind::kSoftmaxTopK : RouterKind::kTopKSoftmax;
    model.balance_weight = pick(0, 1) == 1 ? 0.01 : 0.0;
  }
  return model;
}

// Varies details in which published models differ: norms, biases, positions, layer order. In half
// of the models; some of them only without experts.
void Vary(std::uint64_t index, ModelSpec& model) {
  std::mt19937_64 random(~index * 7);
  const auto flip = [&] { return std::uniform_int_distribution<int>(0, 1)(random) == 1; };
  if (flip()) return;
  const bool rope = model.positions == PositionKind::kRope;
  model.norm_bias = flip();
  model.qk_norm = flip();
  model.head_bias = flip();
  model.embedding_norm = flip();
  if (rope && flip()) model.rotary_dim = 2;
  if (!rope && flip()) model.unused_positions = 2;
  if (flip()) model.logit_softcap = 30;
  if (model.experts > 0) return;
  if (flip()) {
    model.order = flip() ? LayerOrder::kParallel : LayerOrder::kParallelOneNorm;
  } else if (!model.output_bias && flip()) {
    model.post_norms = true;
    model.pre_norms = flip();
  }
  if (!model.head_bias && flip()) model.logit_scale = 0.5;
}

// Adds context parallelism to a third of the plans. It replaces data-parallel ranks, so that the
// number of ranks does not grow.
void ShareOutSequences(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(~index);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Plan& plan = out.plan;
  if (pick(0, 2) != 0) return;
  plan.cp = pick(2, 4);
  plan.cp_kind = static_cast<ContextParallelKind>(pick(0, 2));
  plan.sequence = std::int64_t{2} * plan.cp * pick(1, 8 / plan.cp);
  plan.global_batch /= plan.dp;
  plan.dp = std::max(1, plan.dp / plan.cp);
  plan.global_batch *= plan.dp;
  if (plan.dp * plan.cp % plan.replicas != 0) plan.replicas = 1;
  const bool whole_heads = out.model.kv_heads % (std::int64_t{plan.cp} * plan.tp) == 0;
  if (!whole_heads && plan.cp_kind == ContextParallelKind::kAllToAll) {
    plan.cp_kind = ContextParallelKind::kRing;
  }
}

// Gives a third of the models an attention window. In half of these every second or third layer has
// global attention.
void NarrowAttention(std::uint64_t index, ModelSpec& model) {
  std::mt19937_64 random(~index * 3);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  if (pick(0, 2) != 0) return;
  model.attention_window = pick(1, 9);
  if (pick(0, 1) == 1) model.global_attention_every = pick(2, 3);
  const bool rotates = model.positions == PositionKind::kRope && model.global_attention_every > 0;
  if (rotates) model.rotate_global = pick(0, 1) == 1;
}

// Makes the steps overlap (PipeDream schedules) in a sixth of the plans.
void OverlapSteps(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(~index * 5);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  if (pick(0, 5) != 0) return;
  Plan plan = out.plan;
  plan.schedule = pick(0, 1) == 0 ? ScheduleKind::kPipeDream : ScheduleKind::kPipeDream2bw;
  plan.vpp = 1;
  plan.clip_norm = plan.loss_scale = 0;
  plan.global_batch = plan.micro_batch * plan.dp * (plan.pp + pick(0, 9));
  plan.offload_optimizer = plan.offload_gradients = plan.offload_parameters =
      plan.offload_activations = OffloadTarget::kNone;
  plan.offload_fraction = 1;
  plan.stream_optimizer = plan.delayed_update = false;
  plan.zero_stage = std::min(plan.zero_stage, 2);
  plan.gather_format = GatherFormat::kFp32;
  if (plan.UpdatesEachMicroBatch()) {
    plan.zero_stage = 0;
    plan.reduction_time = ReductionTime::kEnd;
    if (plan.pp > 1) out.model.tied_embeddings = false;
  }
  if (plan.zero_stage == 0) plan.replicas = 1;
  if (ValidatePlan(plan, out.model)) out.plan = plan;
}

// Chooses how many blocks are gathered together, and which parameters are not gathered at all.
void GatherTogether(std::uint64_t index, Plan& plan) {
  std::mt19937_64 random(index ^ 0x6a74);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const bool copies = plan.zero_stage == 3 || plan.offload_parameters != OffloadTarget::kNone;
  if (copies && pick(0, 1) == 1) plan.gather_bytes = std::int64_t{1} << pick(10, 16);
  if (plan.zero_stage != 3 || plan.offload_parameters != OffloadTarget::kNone) return;
  if (pick(0, 1) == 1) plan.unsharded_bytes = std::int64_t{1} << pick(10, 18);
}

// Chooses how experts are distributed over ranks and balanced.
void DealExperts(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(index ^ 0x5eed);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Plan& plan = out.plan;
  ModelSpec& model = out.model;
  if (pick(0, 1) == 1) plan.capacity_factor = 0.5 * pick(1, 4);
  const bool splits = plan.tp > 1 && plan.micro_batch * plan.LocalSequence() % plan.tp == 0;
  if (splits && plan.replicas == 1 && pick(0, 2) > 0) {
    plan.sequence_parallel = true;
    plan.expert_tp = 1;
  }
  std::vector<int> fits = {1};
  for (int ep = 2; ep <= plan.ExpertRanks() && plan.replicas == 1; ++ep) {
    if (plan.ExpertRanks() % ep == 0 && model.experts % ep == 0) fits.push_back(ep);
  }
  const int last = static_cast<int>(fits.size()) - 1;
  plan.ep = fits[static_cast<std::size_t>(pick(0, 1) == 1 ? last : pick(0, last))];
  const std::int64_t tokens = plan.ExpertTokens();
  if (plan.ep > 1 && pick(0, 1) == 1) {
    plan.moe_pieces = static_cast<int>(std::min<std::int64_t>(pick(1, 4), tokens));
  }
  if (plan.ep > 1 && plan.capacity_factor == 0 && pick(0, 1) == 1) {
    plan.expert_headroom = 1 + 0.25 * pick(0, 8);
  }
  if (tokens % 2 == 0 && pick(0, 1) == 1) {
    model.balance_tokens =
        plan.cp > 1 ? std::gcd(tokens, plan.sequence / (2 * plan.cp)) : tokens / 2;
  }
  if (model.experts % 2 == 0 && pick(0, 1) == 1) {
    model.expert_groups = 2;
    model.groups_per_token = 2 * model.experts_per_token <= model.experts ? pick(1, 2) : 2;
  }
}

// Chooses number formats in half of the plans, among those that the plan's other options allow.
void ChooseFormats(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(~index * 7);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  if (pick(0, 1) == 0) return;
  const auto choose = [&out](auto member, auto value) {
    const auto before = std::exchange(out.plan.*member, value);
    if (!ValidatePlan(out.plan, out.model)) out.plan.*member = before;
  };
  if (out.plan.gather_format == GatherFormat::kBf16) out.plan.gather_format = GatherFormat::kFp32;
  if (pick(0, 1) == 1) choose(&Plan::post_validation, false);
  // Offloaded parameters are their own master weights.
  const bool offloaded = out.plan.offload_parameters != OffloadTarget::kNone;
  const auto precision = static_cast<Precision>(pick(1, 6));
  if (offloaded || out.plan.post_validation) {
    out.plan.weights = WeightStorage::kFp32;
    choose(&Plan::precision, precision);
    if (!out.plan.HasShortActivations()) out.plan.weights = WeightStorage::kMaster;
  } else {
    choose(&Plan::precision, precision);
  }
  choose(&Plan::weights, static_cast<WeightStorage>(pick(0, 2)));
  choose(&Plan::gradients, static_cast<GradientFormat>(pick(0, 1)));
}

// Adds latent attention, a sigmoid router and a multi-token prediction layer, or the features of
// gpt-oss. Each to a quarter of the plans that can have them.
void UseOtherAttention(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(index ^ 0x1a7e);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const std::int64_t kind = pick(0, 3);
  ModelSpec model = out.model;
  if (kind == 0) {
    model.attention = AttentionKind::kLatent;
    model.kv_heads = model.heads;
    model.query_rank = pick(0, 2) * 4;
    model.key_value_rank = 4 * pick(1, 5);
    model.head_dim += 2;
    model.rope_head_dim = 2;
    model.value_head_dim = pick(1, 9);
    model.attention_bias = model.output_bias = model.qk_norm = false;
    model.rotary_dim = model.attention_window = model.global_attention_every = 0;
    model.rotate_global = model.pre_norms = true;
    model.order = LayerOrder::kSequential;
    if (model.experts > 0 && pick(0, 1) == 1) {
      model.router = RouterKind::kSigmoid;
      model.expert_scale = 2;
    }
    if (ValidateModel(model) && ValidatePlan(out.plan, model)) out.model = model;
    model.embedding_norm = false;
    model.predict_ahead = pick(0, 1);
  } else if (kind == 1) {
    model.attention_sinks = true;
    if (model.IsGated()) model.mlp = MlpKind::kClampedSwiglu;
    model.router_bias = model.expert_bias = model.experts > 0;
  }
  if (ValidateModel(model) && ValidatePlan(out.plan, model)) out.model = model;
}

// Makes four changes, each in half of the plans that allow it: a base in 4 bits beside adapters, a
// dynamic loss scale, one key and value head, and a gate for shared experts.
void QuantizeBase(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(index ^ 0x4b17);
  const auto half = [&] { return std::uniform_int_distribution<int>(0, 1)(random) == 0; };
  const auto choose = [&](const auto& change) {
    PlannedModel made = out;
    change(made);
    const bool valid = ValidateModel(made.model) && ValidatePlan(made.plan, made.model);
    if (half() && valid) out = made;
  };
  choose([](PlannedModel& p) {
    if (p.plan.HasAdapters()) p.plan.method = TrainingMethod::kQlora;
  });
  choose([](PlannedModel& p) { p.plan.loss_scale_window = p.plan.loss_scale > 0 ? 100 : 0; });
  choose([](PlannedModel& p) { p.model.kv_heads = 1; });
  choose([](PlannedModel& p) { p.model.qk_norm_whole = p.model.qk_norm && p.plan.tp == 1; });
  choose([](PlannedModel& p) { p.model.shared_gate = p.model.shared_ffn_hidden > 0; });
}

// Adds router balancing by biases, and a second multi-token prediction layer, to half of the plans
// that can have them.
void BalanceByBiases(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(index ^ 0xb1a5);
  const auto half = [&] { return std::uniform_int_distribution<int>(0, 1)(random) == 0; };
  ModelSpec model = out.model;
  if (model.router == RouterKind::kSigmoid && half()) model.router_bias_rate = 0.001;
  if (model.predict_ahead > 0 && half()) model.predict_ahead = 2;
  if (ValidateModel(model) && ValidatePlan(out.plan, model)) out.model = model;
}

// Adds parts of Llama 4 and of encoders, each to a third of the plans that can have it.
void UseOtherParts(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(index ^ 0x11a4);
  const auto third = [&] { return std::uniform_int_distribution<int>(0, 2)(random) == 0; };
  const auto choose = [&](const auto& change) {
    ModelSpec model = out.model;
    change(model);
    if (third() && ValidateModel(model) && ValidatePlan(out.plan, model)) out.model = model;
  };
  choose([](ModelSpec& m) {
    if (m.experts > 0) m.expert_every = 2;
  });
  choose([](ModelSpec& m) {
    if (m.experts == 0) return;
    m.router = RouterKind::kTopKSigmoid;
    m.weigh_expert_inputs = true;
  });
  choose([](ModelSpec& m) { m.qk_l2_norm = true; });
  choose([](ModelSpec& m) { m.attention_chunk = 4; });
  choose([](ModelSpec& m) { m.causal = false; });
  choose([](ModelSpec& m) { m.residual_after_norm = true; });
  choose([](ModelSpec& m) { m.token_types = 2; });
  choose([](ModelSpec& m) { m.head_transform = true; });
}

// Makes encoder-decoders of the plans that can have them, half of the time with uneven sequences.
void AddEncoders(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(index ^ 0x75);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  ModelSpec model = out.model;
  model.norm = NormKind::kRmsNorm;
  model.positions = PositionKind::kRelative;
  model.relative_buckets = 8;
  model.encoder_layers = pick(1, 4);
  model.rotary_dim = model.unused_positions = 0;
  model.attention_bias = model.output_bias = model.mlp_bias = model.head_bias = false;
  model.embedding_norm = model.qk_norm = false;
  Plan plan = out.plan;
  if (plan.sequence < 2 || pick(0, 1) == 0) return;
  if (pick(0, 1) == 0) plan.encoder_sequence = pick(1, static_cast<int>(plan.sequence) - 1);
  plan.stage_layers.clear();
  if (ValidateModel(model) && ValidatePlan(plan, model)) out = {model, plan};
}

// Adds dropout and standard attention, which stores its scores, to a third of the plans each.
void DropNumbers(std::uint64_t index, PlannedModel& out) {
  std::mt19937_64 random(~index * 11);
  const auto third = [&] { return std::uniform_int_distribution<int>(0, 2)(random) == 0; };
  const auto choose = [&](auto field, auto value) {
    Plan plan = out.plan;
    plan.*field = value;
    if (third() && ValidatePlan(plan, out.model)) out.plan = plan;
  };
  choose(&Plan::dropout, 0.1);
  choose(&Plan::attention_dropout, 0.1);
  choose(&Plan::attention, AttentionAlgorithm::kStandard);
}

// Fuses GEMMs with their epilogues in half of the plans.
void FuseEpilogues(std::uint64_t index, Plan& plan) {
  std::mt19937_64 random(index ^ 0xe911);
  if (std::uniform_int_distribution<int>(0, 1)(random) == 0) return;
  const bool norms = plan.fuse == FusionKind::kNorms || plan.fuse == FusionKind::kAll;
  plan.fuse = norms ? FusionKind::kAll : FusionKind::kEpilogues;
}

// Recomputes single modules in half of the plans with selective recomputation, and every second
// layer in a quarter of those with any.
void ChooseModules(std::uint64_t index, PlannedModel& out) {
  Plan& plan = out.plan;
  if (plan.recompute == RecomputeKind::kNone) return;
  std::mt19937_64 random(index ^ 0x6d0d);
  const auto pick = [&](unsigned count) { return static_cast<unsigned>(random() % count); };
  if (pick(4) == 0) plan.recompute_every = 2;
  if (plan.recompute != RecomputeKind::kSelective || pick(2) == 0) return;
  plan.recompute_modules = static_cast<RecomputeModules>(random()) & ModulesIn(out.model);
}

}  // namespace

PlannedModel RandomPlannedModel(std::uint64_t index) {
  std::mt19937_64 random(index);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  PlannedModel out;
  out.model = RandomModel(random);
  NarrowAttention(index, out.model);
  Vary(index, out.model);
  Plan& plan = out.plan;
  plan.dp = static_cast<int>(pick(1, 4));
  plan.tp = static_cast<int>(std::int64_t{1} << pick(0, 2));
  plan.pp = static_cast<int>(std::min<std::int64_t>(pick(1, 4), out.model.layers));
  plan.sequence = pick(1, 16);
  plan.micro_batch = pick(1, 3);
  plan.global_batch = plan.micro_batch * plan.dp * pick(1, 9);
  plan.schedule =
      static_cast<ScheduleKind>(pick(0, static_cast<int>(ScheduleKind::kPipeDream) - 1));
  if (plan.schedule == ScheduleKind::kInterleaved) {
    plan.vpp = static_cast<int>(pick(1, std::max(1, static_cast<int>(out.model.layers) / plan.pp)));
  }
  const int stages[] = {0, 1, 3};
  plan.zero_stage = stages[pick(0, 2)];
  plan.recompute = static_cast<RecomputeKind>(pick(0, 2));
  plan.clip_norm = pick(0, 1) == 1 ? 1.0 : 0.0;
  plan.bucket_bytes = 1 << pick(10, 16);
  if (pick(0, 1) == 1) plan.zero_stage = static_cast<int>(pick(0, 3));
  if (plan.zero_stage > 0 && plan.dp % 2 == 0 && pick(0, 1) == 1) plan.replicas = 2;
  plan.prefetch_depth = static_cast<int>(pick(0, 3));
  plan.reduction_time = static_cast<ReductionTime>(pick(0, 1));
  if (plan.zero_stage == 3) plan.gather_format = static_cast<GatherFormat>(pick(0, 3));
  plan.offload_activations = static_cast<OffloadTarget>(pick(0, 2));
  plan.offload_optimizer = static_cast<OffloadTarget>(pick(0, 2));
  // Lion's steps are signs: they differ between plans wherever gradients differ by a rounding.
  constexpr OptimizerKind kOptimizers[] = {OptimizerKind::kAdamW, OptimizerKind::kAdamW,
                                           OptimizerKind::kMomentum, OptimizerKind::kSgd};
  plan.optimizer = kOptimizers[pick(0, 3)];
  if (plan.optimizer == OptimizerKind::kSgd) plan.offload_optimizer = OffloadTarget::kNone;
  plan.loss_scale = pick(0, 1) == 1 ? 1024.0 : 0.0;
  if (plan.offload_optimizer != OffloadTarget::kNone) {
    const std::int64_t way = pick(0, 2);  // host, streamed, delayed
    plan.stream_optimizer = way == 1;
    plan.delayed_update = way == 2 && plan.loss_scale == 0;
    if (!plan.delayed_update) plan.offload_fraction = static_cast<double>(pick(0, 4)) / 4;
    plan.offload_parameters = static_cast<OffloadTarget>(pick(0, 2));
    if (pick(0, 1) == 1) plan.offload_gradients = OffloadTarget::kHost;
  } else if (MomentsOf(plan.optimizer) > 0) {
    plan.moments = static_cast<MomentFormat>(pick(0, MomentsOf(plan.optimizer)));
  }
  if (plan.schedule == ScheduleKind::kDualPipe && plan.zero_stage < 2) {
    plan.reduction_time = ReductionTime::kEnd;
  }
  ShareOutSequences(index, out);
  const OffloadTarget parameters = std::exchange(plan.offload_parameters, OffloadTarget::kNone);
  const OffloadTarget gradients = std::exchange(plan.offload_gradients, OffloadTarget::kNone);
  // If the schedule does not accept the plan, it falls back to 1F1B.
  if (!ValidatePlan(plan, out.model)) {
    plan.schedule = ScheduleKind::k1f1b;
    plan.vpp = 1;
  }
  const auto offload = [&](OffloadTarget& what, OffloadTarget to) {
    what = to;
    if (!ValidatePlan(plan, out.model)) what = OffloadTarget::kNone;
  };
  offload(plan.offload_parameters, parameters);
  offload(plan.offload_gradients, gradients);
  OverlapSteps(index, out);
  const std::int64_t rows = plan.micro_batch * plan.LocalSequence();
  const auto pieces = [&](int max) {
    return static_cast<int>(std::min<std::int64_t>(pick(0, 1) == 1 ? pick(1, max) : 1, rows));
  };
  plan.vocab_parallel = plan.tp > 1 && pick(0, 1) == 1;
  plan.sequence_parallel = plan.tp > 1 && rows % plan.tp == 0 && pick(0, 1) == 1;
  if (plan.recompute != RecomputeKind::kNone) plan.recompute_layers = static_cast<int>(pick(0, 2));
  plan.loss_chunks = pieces(5);
  if (out.model.experts > 0) DealExperts(index, out);
  if (!plan.SplitsBackward() && out.model.experts == 0) plan.mlp_tiles = pieces(4);
  const bool scatters = plan.sequence_parallel &&
                        (plan.mlp_tiles > 1 || out.model.order == LayerOrder::kParallelOneNorm);
  if (plan.tp > 1 && !scatters) plan.tp_tiles = pieces(3);
  plan.fuse = pick(0, 3) == 0 ? FusionKind::kNorms : FusionKind::kNone;
  if (out.model.experts == 0 && pick(0, 2) == 0) {
    plan.method = TrainingMethod::kLora;
    plan.lora_rank = static_cast<int>(pick(1, 8));
    if (!ValidatePlan(plan, out.model)) {
      plan.method = TrainingMethod::kFull;
      plan.lora_rank = Plan{}.lora_rank;
    }
  }
  plan.post_validation = pick(0, 1) == 1;
  if (!ValidatePlan(plan, out.model)) plan.post_validation = false;
  QuantizeBase(index, out);
  GatherTogether(index, plan);
  ChooseFormats(index, out);
  UseOtherAttention(index, out);
  UseOtherParts(index, out);
  BalanceByBiases(index, out);
  DropNumbers(index, out);
  FuseEpilogues(index, plan);
  ChooseModules(index, out);
  AddEncoders(index, out);
  return out;
}

std::string Describe(const PlannedModel& planned) {
  const ModelSpec& m = planned.model;
  return "layers " + std::to_string(m.layers) + " hidden " + std::to_string(m.hidden) +
         (m.positions == PositionKind::kRope ? " llama " : " gpt ") +
         (m.tied_embeddings ? "tied " : "") +
         (m.experts > 0 ? "experts " + std::to_string(m.experts) + " " : "") +
         (m.HasEncoder() ? "encoder " + std::to_string(m.encoder_layers) + " " : "") +
         (m.IsLatent() ? "latent " : "") + (m.predict_ahead > 0 ? "ahead " : "") +
         (m.attention_sinks ? "sinks " : "") + Describe(planned.plan);
}

}  // namespace foretrain
