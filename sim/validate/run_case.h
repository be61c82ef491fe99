// Turns a row of published runs into the input of a forecast: model, cluster, plan, and options of
// the system that ran it. predict_run.h makes the forecast.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/preset.h"
#include "sim/config/plan/system_options.h"
#include "sim/cost/profile/architecture.h"
#include "sim/validate/families.h"
#include "sim/validate/run_table.h"

namespace foretrain {

struct RunCase {
  ModelSpec model;
  ClusterSpec cluster;
  SystemOptions system;
  std::string preset;
  // Plans that the row allows: one, or one for each value of the open fields. All are valid for the
  // model.
  std::vector<Plan> plans;
  std::vector<std::string> open;    // plan fields that the row leaves open, such as "micro_batch"
  std::vector<std::string> filled;  // other values that were filled in, as text: "heads 112"
};

// Inputs shared by all rows of a table.
struct CaseSources {
  Catalogue catalogue;
  std::vector<Preset> presets;
  RunFamilies families;
  std::vector<Architecture> architectures;
};
Result<CaseSources> BuiltInCaseSources();

// Builds the case of `run`.
//
// Model: a gated MLP implies RMSNorm, RoPE and no biases. Other models have GPT's LayerNorm,
// learned positions and biases. Embeddings are tied if that is closer to the published number of
// parameters; by default only for GPT. Machine: the device of the catalogue with the rates of the
// row. Plan: the preset of the family, overridden by every field that the row states. Layers that
// the stages do not divide are split evenly, or as the family states. Selective recomputation has
// the family's meaning. Open fields: micro_batch takes 1, 2, 4, 8 and 16 where the batch is
// divisible. vpp takes each divisor of a stage's layers, recompute takes none, selective and full.
// Without a global batch, each rank has one micro-batch.
//
// Errors: kInvalidArgument or kUnsupported with a one-sentence reason: a device without an entry or
// rates in the catalogue, or a shape or plan that is refused.
Result<RunCase> CaseOf(const PublishedRun& run, const CaseSources& sources);

}  // namespace foretrain
