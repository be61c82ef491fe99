#include "sim/config/launch/launch_facts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "sim/config/launch/expert_pattern.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxCount = kMaxModelCount;

// "run.sh line 12: pipeline-model-parallel-size", for messages.
std::string Origin(const DraftValue& value) {
  std::string origin = value.file;
  if (value.line > 0) origin += fmt::format(" line {}", value.line);
  return origin + ": " + (value.key.empty() ? "a default" : value.key);
}

// Reads whole numbers from a draft, and keeps the first error.
class Counts {
 public:
  explicit Counts(LaunchDraft& draft) : draft_(draft) {}

  bool Has(std::string_view target) const { return !TextIn(draft_, target).empty(); }

  // `otherwise` if there is no value.
  std::int64_t Get(std::string_view target, std::int64_t otherwise, std::int64_t low = 1) {
    const auto found = draft_.find(target);
    if (found == draft_.end() || found->second.text.empty()) return otherwise;
    // Numbers such as 5e8 are whole too.
    const auto number = ParseNumber("", found->second.text, static_cast<double>(low),
                                    static_cast<double>(kMaxCount) * 64);
    if (number && *number == std::floor(*number)) return static_cast<std::int64_t>(*number);
    if (error_.empty()) {
      error_ = fmt::format("{} is \"{}\"; give a whole number from {}", Origin(found->second),
                           Printable(found->second.text), low);
    }
    return otherwise;
  }

  void Set(const std::string& target, std::int64_t value) { Set(target, std::to_string(value)); }
  void Set(const std::string& target, const std::string& text) {
    DraftValue& value = draft_[target];
    if (value.text.empty()) value.text = text;
  }

  void Refuse(std::string_view target, const std::string& why) {
    if (!error_.empty()) return;
    const auto found = draft_.find(target);
    error_ =
        found != draft_.end() ? Origin(found->second) + " " + why : std::string(target) + " " + why;
  }

  Result<void> Finish() const {
    if (error_.empty()) return {};
    return Fail(ErrorCode::kInvalidArgument, error_);
  }

 private:
  LaunchDraft& draft_;
  std::string error_;
};

// dp takes the ranks that tp, pp and cp leave, or is the product of shards and replicas.
void SetDegrees(std::int64_t ranks, Counts& counts) {
  const std::int64_t split = counts.Get("tp", 1) * counts.Get("pp", 1) * counts.Get("cp", 1);
  const std::int64_t replicas = counts.Get("replicas", 1);
  if (!counts.Has("dp") && counts.Has("run.shards")) {
    const std::int64_t shards = counts.Get("run.shards", -1, -1);
    if (shards > 0) counts.Set("dp", shards * replicas);
  }
  if (counts.Has("dp")) return;
  if (split > ranks || ranks % split != 0) {
    const char* const target = counts.Has("tp") && counts.Get("tp", 1) > 1   ? "tp"
                               : counts.Has("pp") && counts.Get("pp", 1) > 1 ? "pp"
                                                                             : "cp";
    counts.Refuse(target, fmt::format("with tp {}, pp {} and cp {} takes multiples of {} ranks, "
                                      "and the launch has {}; give --cluster or --ranks with "
                                      "a multiple",
                                      counts.Get("tp", 1), counts.Get("pp", 1), counts.Get("cp", 1),
                                      split, ranks));
    return;
  }
  counts.Set("dp", ranks / split);
}

// Two of global batch, micro-batch and number of micro-batches give the third.
void SetBatches(Counts& counts) {
  const std::int64_t dp = counts.Get("dp", 1);
  if (counts.Has("run.rank_batch")) {
    counts.Set("global_batch", counts.Get("run.rank_batch", 1) * dp);
  }
  if (counts.Has("run.local_batch")) {
    const std::int64_t local = counts.Get("run.local_batch", 1);
    const bool piped = counts.Get("pp", 1) > 1;
    const std::int64_t micro = counts.Has("micro_batch") ? counts.Get("micro_batch", 1)
                               : piped                   ? counts.Get("run.pipeline_micro_batch", 1)
                                                         : local;
    if (local % micro != 0) {
      counts.Refuse(
          "run.local_batch",
          fmt::format("{} is no multiple of the pipeline's micro-batch {}", local, micro));
    }
    counts.Set("micro_batch", micro);
    counts.Set("global_batch", local * dp);
  }
  const bool has_all = counts.Has("global_batch") && counts.Has("micro_batch");
  if (!has_all && counts.Has("global_batch") && counts.Has("run.micro_batches")) {
    const std::int64_t batch = counts.Get("global_batch", 1);
    const std::int64_t parts = counts.Get("run.micro_batches", 1) * dp;
    if (batch % parts != 0) {
      counts.Refuse("global_batch", fmt::format("{} is no multiple of {} micro-batches times {} "
                                                "data-parallel ranks",
                                                batch, parts / dp, dp));
      return;
    }
    counts.Set("micro_batch", batch / parts);
  }
  counts.Set("micro_batch", 1);
  const std::int64_t micro = counts.Get("micro_batch", 1);
  counts.Set("global_batch", micro * dp * counts.Get("run.micro_batches", 1));
}

// Chunks from the layers of each, and stages with other ends.
void SetStages(LaunchDraft& draft, Counts& counts) {
  const std::int64_t pp = counts.Get("pp", 1);
  const std::int64_t layers = counts.Get("model.layers", counts.Get("run.layers", 0, 0), 0);
  if (counts.Has("run.chunk_layers") && pp > 1 && layers > 0) {
    const std::int64_t stage = counts.Get("run.chunk_layers", 1) * pp;
    if (layers % stage != 0) {
      counts.Refuse("run.chunk_layers",
                    fmt::format("does not divide {} layers over {} stages; give a divisor of {}",
                                layers, pp, std::max<std::int64_t>(1, layers / pp)));
      return;
    }
    counts.Set("vpp", layers / stage);
  }
  if (pp > 1 && counts.Get("vpp", 1) > 1) counts.Set("schedule", "interleaved");
  if (pp == 1) draft.erase("vpp");
  const bool has_ends = counts.Has("run.first_layers") || counts.Has("run.last_layers");
  if (!has_ends || pp < 2 || layers == 0) return;
  const std::int64_t first = counts.Get("run.first_layers", 0, 0);
  const std::int64_t last = counts.Get("run.last_layers", 0, 0);
  const std::int64_t others = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t rest = layers - first - last;
  if (rest < 0 || (others == 0 ? rest != 0 : rest % others != 0)) {
    counts.Refuse(
        first > 0 ? "run.first_layers" : "run.last_layers",
        fmt::format("leaves {} layers for {} stages; give a number that divides", rest, others));
    return;
  }
  std::vector<std::string> stages(static_cast<std::size_t>(std::min<std::int64_t>(pp, 8192)),
                                  std::to_string(others > 0 ? rest / others : 0));
  if (first > 0) stages.front() = std::to_string(first);
  if (last > 0) stages.back() = std::to_string(last);
  counts.Set("stage_layers", Join(stages, ","));
}

void SetRecompute(LaunchDraft& draft, Counts& counts) {
  if (TextIn(draft, "run.recompute_method") == "block" && counts.Has("run.recompute_count")) {
    counts.Set("recompute_layers", counts.Get("run.recompute_count", 0));
  }
}

void SetBuckets(const DialectBuckets& buckets, LaunchDraft& draft, Counts& counts) {
  if (buckets.without_overlap_bytes == 0) return;
  if (TextIn(draft, "run.overlaps_gradients") != "on") {
    draft["bucket_bytes"].text = std::to_string(buckets.without_overlap_bytes);
    return;
  }
  counts.Set("bucket_bytes", UsualBucketBytes(buckets, counts.Get("dp", 1)));
}

// A dynamic scale, unless the file fixes one.
void SetLossScale(LaunchDraft& draft, Counts& counts) {
  if (TextIn(draft, "precision") != "fp16") {
    draft.erase("loss_scale");
    draft.erase("loss_scale_window");
    return;
  }
  if (counts.Has("loss_scale") && counts.Get("loss_scale", 0, 0) > 0) return;
  draft.erase("loss_scale");
  if (counts.Has("run.scale_power")) {
    const std::int64_t power = std::min<std::int64_t>(62, counts.Get("run.scale_power", 16, 0));
    counts.Set("loss_scale", std::int64_t{1} << power);
  }
  if (counts.Has("run.initial_scale")) {
    counts.Set("loss_scale", TextIn(draft, "run.initial_scale"));
  }
  if (counts.Has("run.scale_window")) {
    counts.Set("loss_scale_window", counts.Get("run.scale_window", 1000));
  }
}

// Layers with experts from their list.
void SetExpertLayers(const LaunchDraft& draft, Counts& counts) {
  if (!counts.Has("run.expert_layers")) return;
  const auto read =
      ParseExpertLayers(TextIn(draft, "run.expert_layers"), counts.Get("model.layers", 1));
  if (!read) {
    counts.Refuse("run.expert_layers", read.error().message);
    return;
  }
  counts.Set("model.first_dense_layers", read->first_dense_layers);
  counts.Set("model.expert_every", read->expert_every);
}

// Widths of the model that trainers derive as Megatron-LM's arguments.py does.
void SetModel(LaunchDraft& draft, Counts& counts) {
  if (!counts.Has("model.layers") || !counts.Has("model.hidden")) return;
  const std::int64_t hidden = counts.Get("model.hidden", 1);
  const std::string mlp = TextIn(draft, "model.mlp");
  const bool is_gated = mlp == "swiglu" || mlp == "geglu";
  counts.Set("model.ffn_hidden", is_gated ? hidden * 8 / 3 / 64 * 64 : 4 * hidden);
  counts.Set("model.max_sequence", counts.Get("sequence", 1));
  const std::int64_t heads = counts.Get("model.heads", 1);
  if (TextIn(draft, "model.attention") == "latent" && counts.Has("model.plain_head_dim")) {
    draft["model.head_dim"].text = std::to_string(counts.Get("model.plain_head_dim", 1) +
                                                  counts.Get("model.rope_head_dim", 0, 0));
    draft["model.kv_heads"].text = std::to_string(heads);
  }
  if (!counts.Has("model.head_dim")) {
    if (hidden % heads != 0) {
      counts.Refuse("model.heads", fmt::format("{} does not divide the hidden size {}; give "
                                               "a divisor",
                                               heads, hidden));
      return;
    }
    counts.Set("model.head_dim", hidden / heads);
  }
  if (counts.Has("model.rotary_share") && TextIn(draft, "model.positions") == "rope") {
    const auto share = ParseNumber("", TextIn(draft, "model.rotary_share"), 0, 1);
    const double dim = static_cast<double>(counts.Get("model.head_dim", 1));
    if (share && *share < 1) {
      counts.Set("model.rotary_dim", static_cast<std::int64_t>(std::floor(dim * *share)));
    }
  }
  // Only models with experts have widths of experts.
  if (counts.Get("model.experts", 0, 0) > 0) {
    SetExpertLayers(draft, counts);
    counts.Set("model.expert_ffn_hidden", counts.Get("model.ffn_hidden", 1));
    return;
  }
  std::erase_if(draft, [](const auto& entry) {
    static const std::vector<std::string_view> names{
        "model.experts",           "model.experts_per_token",  "model.expert_ffn_hidden",
        "model.shared_ffn_hidden", "model.first_dense_layers", "model.router",
        "model.balance_weight",    "model.router_bias_rate",   "model.balance_tokens",
        "model.expert_groups",     "model.groups_per_token",   "model.expert_scale",
        "model.shared_gate"};
    return std::find(names.begin(), names.end(), entry.first) != names.end();
  });
}

}  // namespace

std::string TextIn(const LaunchDraft& draft, std::string_view target) {
  const auto found = draft.find(target);
  return found == draft.end() ? "" : found->second.text;
}

bool Meets(const LaunchDraft& draft, std::string_view condition) {
  if (condition.empty()) return true;
  if (const std::size_t both = condition.find('&'); both != std::string_view::npos) {
    return Meets(draft, condition.substr(0, both)) && Meets(draft, condition.substr(both + 1));
  }
  if (condition.starts_with('!')) return !Meets(draft, condition.substr(1));
  if (condition.starts_with('?')) return !TextIn(draft, condition.substr(1)).empty();
  const std::size_t equals = condition.find('=');
  if (equals != std::string_view::npos) {
    return SameValue(TextIn(draft, condition.substr(0, equals)), condition.substr(equals + 1));
  }
  const auto count = ParseNumber("", TextIn(draft, condition), 0, 1e18);
  return count.has_value() && *count > 1;
}

bool SameValue(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto left = ParseNumber("", a, -1e300, 1e300), right = ParseNumber("", b, -1e300, 1e300);
  return left.has_value() && right.has_value() && *left == *right;
}

Result<std::int64_t> RanksIn(const LaunchDraft& draft) {
  LaunchDraft copy = draft;
  Counts counts(copy);
  std::int64_t ranks = counts.Get("run.ranks", 0);
  if (ranks == 0 && counts.Has("run.nodes") && counts.Has("run.ranks_per_node")) {
    ranks = counts.Get("run.nodes", 1) * counts.Get("run.ranks_per_node", 1);
  }
  const std::int64_t shards = counts.Get("run.shards", -1, -1);
  const bool has_dp = counts.Has("dp") || shards > 0;
  if (ranks == 0 && has_dp) {
    const std::int64_t dp = counts.Get("dp", shards * counts.Get("replicas", 1));
    ranks = dp * counts.Get("tp", 1) * counts.Get("pp", 1) * counts.Get("cp", 1);
  }
  // All of a batch's factors but dp.
  if (ranks == 0 && counts.Has("global_batch") && counts.Has("micro_batch") &&
      counts.Has("run.micro_batches")) {
    const std::int64_t batch = counts.Get("global_batch", 1);
    const std::int64_t part = counts.Get("micro_batch", 1) * counts.Get("run.micro_batches", 1);
    if (batch % part == 0) {
      ranks = batch / part * counts.Get("tp", 1) * counts.Get("pp", 1) * counts.Get("cp", 1);
    }
  }
  FT_TRY(counts.Finish());
  if (ranks < 0 || ranks > kMaxRanks) {
    return Refuse(
        "a launch of {} ranks is outside 1 to {}; correct the numbers of nodes and "
        "processes",
        ranks, kMaxRanks);
  }
  return ranks;
}

Result<void> CompleteDraft(const Dialect& dialect, std::int64_t ranks, LaunchDraft& draft) {
  Counts counts(draft);
  SetDegrees(ranks, counts);
  SetBatches(counts);
  SetStages(draft, counts);
  SetRecompute(draft, counts);
  SetBuckets(dialect.buckets, draft, counts);
  SetLossScale(draft, counts);
  SetModel(draft, counts);
  return counts.Finish();
}

std::int64_t UsualBucketBytes(const DialectBuckets& buckets, std::int64_t dp) {
  return buckets.element_bytes * std::max(buckets.elements, buckets.elements_per_dp * dp);
}

std::string NumberInFile(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return NumberText(value);
}

}  // namespace foretrain
