// From a row of published runs to what a forecast is made of: model, cluster, plan and the options
// of the system that ran it. Leaves out the forecast (predict_run.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cost/architecture.h"
#include "sim/spec/catalogue.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/preset.h"
#include "sim/spec/system_options.h"
#include "sim/validate/families.h"
#include "sim/validate/run_table.h"

namespace foretrain {

struct RunCase {
  ModelSpec model;
  ClusterSpec cluster;
  SystemOptions system;
  std::string preset;
  // The plans that the row may mean: one, or those with every value of the fields it leaves open.
  // All are valid for the model.
  std::vector<Plan> plans;
  std::vector<std::string> open;    // fields of a plan that the row leaves open: "micro_batch"
  std::vector<std::string> filled;  // what else was filled in, for people: "heads 112"
};

// What cases are made of, made once for a table.
struct CaseSources {
  Catalogue catalogue;
  std::vector<Preset> presets;
  RunFamilies families;
  std::vector<Architecture> architectures;
};
Result<CaseSources> BuiltInCaseSources();

// The case of `run`.
//
// Model: RMSNorm, RoPE and no biases with a gated MLP, else GPT's LayerNorm, learned positions and
// biases; embeddings are tied where the published number of parameters is nearer to that, by
// default for GPT alone. Machine: the catalogue's device with the row's rates. Plan: the preset of
// the family, overruled by every field that the row states. Layers that the stages do not divide
// are dealt evenly, or with embedding and head as a layer each where the family says so. Selective
// recomputation is what the family calls so.
// Open fields: micro_batch takes 1, 2, 4, 8 and 16 as far as the batch divides; vpp each divisor of
// a stage's layers; recompute none, selective and full. Without a global batch, one micro-batch a
// rank.
//
// Errors: kInvalidArgument or kUnsupported with the reason in one sentence: a device that the
// catalogue does not know or has no rates of, a shape or plan that is refused.
Result<RunCase> CaseOf(const PublishedRun& run, const CaseSources& sources);

}  // namespace foretrain
