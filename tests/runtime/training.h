// Small models, trained on the CPU, for tests that compare plans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/parameters/tensors.h"
#include "runtime/run/routing.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/gather_tensors.h"

namespace foretrain {

// 4 layers of width 32, 4 heads, vocabulary 256.
ModelSpec TinyGpt(bool tied = true);
// RMSNorm, SwiGLU, RoPE, 2 key heads for 4 query heads, no biases, untied.
ModelSpec TinyLlama();

// TinyLlama with experts after its first layer: 4 of width 24, 2 for each token, a shared one of
// 16, and a balance loss. Its scores are far enough apart that all plans choose the same experts.
ModelSpec TinyExperts();
// Latent attention with a sigmoid router in groups; TinyMtp adds an MTP layer.
ModelSpec TinyLatent();
ModelSpec TinyMtp();

// One rank, sequence 16, 8 samples a step in micro-batches of 1.
Plan TinyPlan();

struct Trained {
  std::vector<float> losses;         // of the lowest rank that reads one, by step
  std::vector<float> squared_norms;  // likewise; empty without clipping
  TensorMap gradients;               // of the last step
  TensorMap parameters;
  TensorMap averages;  // if the plan keeps them
  RunSummary summary;
  Timeline timeline;
  std::vector<RoutedCounts> routing;
};

struct TrainingOptions {
  std::int64_t steps = 4;
  float learning_rate = 1e-2F;
  std::uint64_t seed = 5;
  bool poison = true;                // on synchronous devices
  const FtDeviceApi* api = nullptr;  // null: the CPU's
  bool record = true;                // spans and memory
  int sm_share = 0;
  bool graphs = false;  // with `record`: a recording that claims to have each op's times
  bool take_turns = false;
  FaultInjector* faults = nullptr;
  TensorSource weights;          // null: InitialWeights with the seed
  std::vector<LocalRank> local;  // as in ExecutorOptions
  WorldMaker world;
  RoutingScript* routing = nullptr;
  GemmAlgorithms gemm_algorithms;
};

// Trains on a fixed text. Fails the test on an error.
Trained TrainTiny(const ModelSpec& model, const Plan& plan, const TrainingOptions& options = {});

// The text used by TrainTiny, and the byte that ends its documents: each is a word.
const std::string& TrainingText();
inline constexpr std::int32_t kDocumentEnd = ' ';

// Largest relative difference between two sets of tensors. Each difference is relative to the
// maximum magnitude of its tensor, or to a thousandth of the overall maximum if that is larger. The
// latter covers a key's bias, whose gradient is only rounding because softmax cancels it. Fails the
// test if names or shapes differ.
double LargestDifference(const TensorMap& a, const TensorMap& b);

// True if both gave the same losses and parameters, bit by bit.
bool SameBits(const Trained& a, const Trained& b);

}  // namespace foretrain
