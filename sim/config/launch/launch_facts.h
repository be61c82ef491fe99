// Quantities of a launch that follow from several options, whatever the trainer: ranks from nodes,
// the global batch from micro-batches, chunks from layers a chunk. Both directions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/config/launch/dialect.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// The value of a target, and where it comes from.
struct DraftValue {
  std::string text;  // as a plan's option takes it; switches are "on" and "off"
  std::string key;   // that gave it; empty: a default of the trainer
  int line = 0;
  std::string file;
};

// Targets by name (DialectRow::to). Quantities in addition to fields of plans and members of
// models:
//
//   run.ranks, run.nodes, run.ranks_per_node, run.shards (-1: all ranks that are left)
//   run.micro_batches        micro-batches of a rank in a step
//   run.local_batch          samples of a data-parallel rank in one gradient accumulation
//   run.rank_batch           samples of a data-parallel rank in a step
//   run.pipeline_micro_batch samples of a micro-batch of a pipeline
//   run.chunk_layers         layers of a virtual pipeline stage
//   run.first_layers, run.last_layers  layers of the first and of the last stage
//   run.expert_layers        frequency or list of the layers with experts
//   run.recompute_method (block, uniform), run.recompute_count
//   run.overlaps_gradients   on: gradients are reduced in buckets during the backward
//   run.initial_scale, run.scale_power, run.scale_window  of a dynamic loss scale
//   run.model                name or folder of the model
//   run.layers               layers of a model that is only named
//   model.plain_head_dim     width of a head without its rotary part, of latent attention
//   model.rotary_share       share of a head that is rotated
using LaunchDraft = std::map<std::string, DraftValue, std::less<>>;

// The text of a target; empty if there is none.
std::string TextIn(const LaunchDraft& draft, std::string_view target);

// Whether the draft meets a condition: "tp" (above 1), "precision=fp16", "?run.nodes" (has a
// value), "!pp" (not), "a&b" (both). An empty condition is met.
bool Meets(const LaunchDraft& draft, std::string_view condition);

// Equal as texts, or as numbers.
bool SameValue(std::string_view a, std::string_view b);

// Ranks that the draft itself gives; 0 if it does not.
Result<std::int64_t> RanksIn(const LaunchDraft& draft);

// Sets the plan's fields and the model's members that follow from the other quantities.
//
//   ranks  of the launch, at least 1
//
// Errors: kInvalidArgument, naming file, line, key and remedy: degrees that do not divide the
// ranks, layers that do not divide, or quantities that contradict each other.
Result<void> CompleteDraft(const Dialect& dialect, std::int64_t ranks, LaunchDraft& draft);

// The reverse: all targets of a plan and its model.
//
//   ranks_per_node  devices of a node, at least 1
LaunchDraft DraftOf(const Dialect& dialect, const Plan& plan, const ModelSpec& model,
                    std::string_view model_name, std::int64_t ranks_per_node);

// Bytes of the gradient buckets of a trainer that overlaps their reduction with the backward.
std::int64_t UsualBucketBytes(const DialectBuckets& buckets, std::int64_t dp);

// A number as trainers read it: a whole one without point and exponent.
std::string NumberInFile(double value);

}  // namespace foretrain
