#include "tests/runtime/equality/plan_matrix.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "tests/runtime/training.h"
#include "tests/support/modules_in.h"

namespace foretrain {
namespace {

constexpr int kMaxMatrixRanks = 8;
constexpr int kTries = 300;  // random plans before a pair counts as impossible

using Change = std::function<void(MatrixCase&)>;

// One choice and its values. The first is the default, which is valid with all other defaults.
struct Factor {
  std::string name;
  std::vector<std::pair<std::string, Change>> values;
};

Change OfPlan(void (*change)(Plan&)) {
  return [change](MatrixCase& one) { change(one.plan); };
}

template <class Value>
Factor Values(std::string name, Value Plan::*field, std::vector<Value> values) {
  Factor factor{std::move(name), {}};
  for (const Value value : values) {
    factor.values.emplace_back(std::to_string(static_cast<double>(value)),
                               [field, value](MatrixCase& one) { one.plan.*field = value; });
  }
  return factor;
}

Factor Flag(std::string name, bool Plan::*field) {
  return Values<bool>(std::move(name), field, {false, true});
}

Factor Schedules() {
  Factor factor{"schedule", {}};
  for (const ScheduleKind kind :
       {ScheduleKind::k1f1b, ScheduleKind::kGpipe, ScheduleKind::kInterleaved, ScheduleKind::kZbH1,
        ScheduleKind::kZbH2, ScheduleKind::kZbV, ScheduleKind::kDualPipe,
        ScheduleKind::kDualPipeV}) {
    factor.values.emplace_back(Name(kind), [kind](MatrixCase& one) { one.plan.schedule = kind; });
  }
  return factor;
}

// Balanced over 4 tokens, which every plan keeps together.
ModelSpec BalancedExperts() {
  ModelSpec model = TinyExperts();
  model.balance_tokens = 4;
  return model;
}

Factor Models() {
  return {"model",
          {{"gpt", [](MatrixCase& one) { one.model = TinyGpt(); }},
           {"gpt-untied", [](MatrixCase& one) { one.model = TinyGpt(false); }},
           {"llama", [](MatrixCase& one) { one.model = TinyLlama(); }},
           {"experts", [](MatrixCase& one) { one.model = BalancedExperts(); }},
           {"latent-balanced-by-biases",
            [](MatrixCase& one) {
              one.model = TinyLatent();
              one.model.router_bias_rate = 0.01;
            }},
           {"experts-with-room",
            [](MatrixCase& one) {
              one.model = BalancedExperts();
              one.plan.capacity_factor = 1.25;
            }},
           {"latent", [](MatrixCase& one) { one.model = TinyLatent(); }},
           {"ahead", [](MatrixCase& one) { one.model = TinyMtp(); }}}};
}

Factor ContextKinds() {
  const auto kind = [](ContextParallelKind which) {
    return [which](MatrixCase& one) { one.plan.cp = 2, one.plan.cp_kind = which; };
  };
  return {"cp",
          {{"none", [](MatrixCase&) {}},
           {"ring", kind(ContextParallelKind::kRing)},
           {"all-gather", kind(ContextParallelKind::kAllGather)},
           {"all-to-all", kind(ContextParallelKind::kAllToAll)}}};
}

Factor Offloads() {
  using Target = OffloadTarget;
  return {"offload",
          {{"none", OfPlan([](Plan&) {})},
           {"activations", OfPlan([](Plan& p) { p.offload_activations = Target::kHost; })},
           {"activations-nvme", OfPlan([](Plan& p) { p.offload_activations = Target::kNvme; })},
           {"optimizer", OfPlan([](Plan& p) { p.offload_optimizer = Target::kHost; })},
           {"gradients",
            OfPlan([](Plan& p) { p.offload_optimizer = p.offload_gradients = Target::kHost; })},
           {"optimizer-nvme", OfPlan([](Plan& p) { p.offload_optimizer = Target::kNvme; })},
           {"optimizer-half",
            OfPlan([](Plan& p) { p.offload_optimizer = Target::kHost, p.offload_fraction = 0.5; })},
           {"optimizer-streamed", OfPlan([](Plan& p) {
              p.offload_optimizer = Target::kHost, p.stream_optimizer = true;
            })},
           {"parameters",
            OfPlan([](Plan& p) { p.offload_optimizer = p.offload_parameters = Target::kHost; })},
           {"parameters-nvme",
            OfPlan([](Plan& p) { p.offload_optimizer = p.offload_parameters = Target::kNvme; })}}};
}

Factor Methods() {
  return {"method",
          {{"full", OfPlan([](Plan&) {})},
           {"lora", OfPlan([](Plan& p) { p.method = TrainingMethod::kLora, p.lora_rank = 4; })},
           {"qlora", OfPlan([](Plan& p) { p.method = TrainingMethod::kQlora, p.lora_rank = 4; })}}};
}

// Selective recomputation of single modules is in recompute_modules_test.cc.
Factor Recomputations() {
  const auto modules = [](RecomputeModules left_out) {
    return [left_out](MatrixCase& one) {
      one.plan.recompute = RecomputeKind::kSelective;
      one.plan.recompute_modules = ModulesIn(one.model) & ~left_out;
    };
  };
  const auto kind = [](RecomputeKind which) {
    return [which](MatrixCase& one) { one.plan.recompute = which; };
  };
  const RecomputeModules cheap = BitOf(RecomputeModule::kCoreAttention) |
                                 BitOf(RecomputeModule::kNorm) |
                                 BitOf(RecomputeModule::kActivation);
  return {"recompute",
          {{"none", kind(RecomputeKind::kNone)},
           {"selective", kind(RecomputeKind::kSelective)},
           {"full", kind(RecomputeKind::kFull)},
           {"products", modules(cheap)},
           {"all-modules", modules(0)},
           {"every-second",
            OfPlan([](Plan& p) { p.recompute = RecomputeKind::kFull, p.recompute_every = 2; })}}};
}

Factor LossScales() {
  return {"loss_scale",
          {{"none", OfPlan([](Plan&) {})},
           {"static", OfPlan([](Plan& p) { p.loss_scale = 1024; })},
           {"dynamic", OfPlan([](Plan& p) { p.loss_scale = 1024, p.loss_scale_window = 2; })}}};
}

std::vector<Factor> Factors() {
  return {
      Schedules(),
      Models(),
      ContextKinds(),
      Offloads(),
      Methods(),
      Values<int>("pp", &Plan::pp, {1, 2, 4}),
      Values<int>("dp", &Plan::dp, {1, 2, 4}),
      Values<int>("tp", &Plan::tp, {1, 2, 4}),
      Values<int>("ep", &Plan::ep, {1, 2}),
      Values<int>("expert_tp", &Plan::expert_tp, {0, 1}),
      Values<int>("moe_pieces", &Plan::moe_pieces, {1, 2}),
      Values<int>("vpp", &Plan::vpp, {1, 2}),
      Values<int>("zero_stage", &Plan::zero_stage, {0, 1, 2, 3}),
      Values<int>("replicas", &Plan::replicas, {1, 2}),
      Flag("sequence_parallel", &Plan::sequence_parallel),
      Flag("vocab_parallel", &Plan::vocab_parallel),
      Values<int>("vocab_multiple", &Plan::vocab_multiple, {1, 24}),
      Recomputations(),
      Values<ReductionTime>("reduction_time", &Plan::reduction_time,
                            {ReductionTime::kEnd, ReductionTime::kMicroBatch}),
      Values<int>("loss_chunks", &Plan::loss_chunks, {1, 3}),
      Values<int>("mlp_tiles", &Plan::mlp_tiles, {1, 3}),
      Values<int>("tp_tiles", &Plan::tp_tiles, {1, 2}),
      Values<int>("prefetch_depth", &Plan::prefetch_depth, {1, 0, 3}),
      Values<std::int64_t>("gather_bytes", &Plan::gather_bytes, {0, 20'000}),
      Values<std::int64_t>("unsharded_bytes", &Plan::unsharded_bytes, {0, 40'000}),
      Values<FusionKind>("fuse", &Plan::fuse,
                         {FusionKind::kNone, FusionKind::kNorms, FusionKind::kAll}),
      Flag("post_validation", &Plan::post_validation),
      Values<AttentionAlgorithm>("attention", &Plan::attention,
                                 {AttentionAlgorithm::kFlash, AttentionAlgorithm::kStandard}),
      Values<double>("dropout", &Plan::dropout, {0.0, 0.1}),
      Values<double>("attention_dropout", &Plan::attention_dropout, {0.0, 0.1}),
      Values<double>("clip_norm", &Plan::clip_norm, {0.0, 0.5}),
      LossScales(),
  };
}

// Index of each factor's value.
using Choice = std::vector<int>;

class Coverer {
 public:
  explicit Coverer(int times) : factors_(Factors()), times_(times) {
    for (std::size_t a = 0; a < factors_.size(); ++a) {
      offsets_.push_back(value_count_);
      value_count_ += static_cast<int>(factors_[a].values.size());
    }
    covered_.assign(static_cast<std::size_t>(value_count_ * value_count_), 0);
  }

  Covering Run() {
    for (int round = 1; round <= times_; ++round) {
      ForEachPair([&](int a, int x, int b, int y) { CoverPair(round, a, x, b, y); });
    }
    ForEachPair([&](int, int, int, int) { ++covering_.pairs; });
    return std::move(covering_);
  }

 private:
  static std::size_t At(int index) { return static_cast<std::size_t>(index); }
  int FactorCount() const { return static_cast<int>(factors_.size()); }
  int ValuesOf(int factor) const { return static_cast<int>(factors_[At(factor)].values.size()); }

  template <class Function>
  void ForEachPair(const Function& function) const {
    for (int a = 0; a < FactorCount(); ++a) {
      for (int b = a + 1; b < FactorCount(); ++b) {
        for (int x = 0; x < ValuesOf(a); ++x) {
          for (int y = 0; y < ValuesOf(b); ++y) function(a, x, b, y);
        }
      }
    }
  }

  int& Covered(int a, int x, int b, int y) {
    return covered_[At((offsets_[At(a)] + x) * value_count_ + offsets_[At(b)] + y)];
  }

  std::optional<MatrixCase> Make(const Choice& choice) const {
    MatrixCase made;
    made.plan = TinyPlan();
    made.plan.global_batch = 16;
    for (int f = 0; f < FactorCount(); ++f) factors_[At(f)].values[At(choice[At(f)])].second(made);
    if (made.plan.World() > kMaxMatrixRanks || !ValidatePlan(made.plan, made.model))
      return std::nullopt;
    // A single rank cannot drop what ranks with parts of a sequence drop.
    if (made.plan.ExpertsSpanTp() && made.plan.capacity_factor > 0) return std::nullopt;
    made.name = Describe(made.plan);
    return made;
  }

  // Number of the choice's pairs that are in fewer than `round` plans.
  int Gain(int round, const Choice& choice) {
    int gain = 0;
    for (int a = 0; a < FactorCount(); ++a) {
      for (int b = a + 1; b < FactorCount(); ++b) {
        if (Covered(a, choice[At(a)], b, choice[At(b)]) < round) ++gain;
      }
    }
    return gain;
  }

  // A valid choice with two given values: near the defaults first, else random.
  std::optional<Choice> Find(int a, int x, int b, int y) {
    Choice choice(factors_.size(), 0);
    for (int attempt = 0; attempt < kTries; ++attempt) {
      choice[At(a)] = x;
      choice[At(b)] = y;
      if (Make(choice)) return choice;
      for (int f = 0; f < FactorCount(); ++f) {
        const bool keeps = random_() % 2 == 0;
        choice[At(f)] = keeps ? 0 : static_cast<int>(random_() % At(ValuesOf(f)));
      }
    }
    return std::nullopt;
  }

  // Changes the other values one at a time, while that covers more pairs.
  void Improve(int round, int a, int b, Choice& choice) {
    std::vector<int> order(factors_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    int best = Gain(round, choice);
    for (const int f : order) {
      if (f == a || f == b) continue;
      const int kept = choice[At(f)];
      int chosen = kept;
      for (int value = 0; value < ValuesOf(f); ++value) {
        choice[At(f)] = value;
        const int gain = Gain(round, choice);
        if (gain <= best || !Make(choice)) continue;
        best = gain;
        chosen = value;
      }
      choice[At(f)] = chosen;
    }
  }

  void CoverPair(int round, int a, int x, int b, int y) {
    if (Covered(a, x, b, y) >= round) return;
    std::optional<Choice> choice = Find(a, x, b, y);
    if (!choice) {
      Covered(a, x, b, y) = times_;
      covering_.impossible.push_back(Text(a, x) + " with " + Text(b, y));
      return;
    }
    Improve(round, a, b, *choice);
    Improve(round, a, b, *choice);
    Take(*choice);
  }

  void Take(const Choice& choice) {
    for (int f = 0; f < FactorCount(); ++f) {
      for (int g = f + 1; g < FactorCount(); ++g) ++Covered(f, choice[At(f)], g, choice[At(g)]);
    }
    MatrixCase made = *Make(choice);
    if (names_.insert(made.model.name + made.name).second) {
      covering_.cases.push_back(std::move(made));
    }
  }

  std::string Text(int factor, int value) const {
    return factors_[At(factor)].name + " " + factors_[At(factor)].values[At(value)].first;
  }

  std::vector<Factor> factors_;
  int times_;
  std::vector<int> offsets_;  // offset of each factor's values among all values
  int value_count_ = 0;
  std::vector<int> covered_;  // by pair of values: number of plans with both
  std::mt19937_64 random_{7};
  std::set<std::string> names_;
  Covering covering_;
};

}  // namespace

Plan MatrixCase::Reference() const {
  Plan one = TinyPlan();
  one.global_batch = plan.global_batch;
  one.capacity_factor = plan.capacity_factor;
  one.clip_norm = plan.clip_norm;
  one.optimizer = plan.optimizer;
  one.moments = plan.moments;
  one.dropout = plan.dropout;
  one.attention_dropout = plan.attention_dropout;
  one.attention = plan.attention;
  // Trained in full precision on the numbers that the 4 bits represent.
  one.method = plan.QuantizesBase() ? TrainingMethod::kLora : plan.method;
  one.lora_rank = plan.lora_rank;
  one.lora_alpha = plan.lora_alpha;
  if (plan.capacity_factor > 0) one.cp = plan.cp;
  return one;
}

Covering CoverPairs(int times) { return Coverer(times).Run(); }

}  // namespace foretrain
