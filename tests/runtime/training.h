// Small models and their training on this machine's CPU, for tests that compare plans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recording_sink.h"
#include "runtime/executor.h"
#include "runtime/parameters/tensors.h"
#include "runtime/routing.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// 4 layers of width 32, 4 heads, vocabulary 256.
ModelSpec TinyGpt(bool tied = true);
// RMSNorm, SwiGLU, rotary positions, 2 key heads for 4 query heads, no biases, untied.
ModelSpec TinyLlama();

// TinyLlama with experts behind its first layer, 4 of width 24, 2 a token, a shared one of 16, and
// a balance that weighs. The experts' choice is the same in all plans: no two scores are that
// close.
ModelSpec TinyExperts();
// Latent attention and a sigmoid router in groups; and the same with a layer that predicts ahead.
ModelSpec TinyLatent();
ModelSpec TinyAhead();

// One rank, sequence 16, 8 samples a step in micro-batches of 1.
Plan TinyPlan();

struct Trained {
  std::vector<float> losses;         // of the lowest rank that reads one, by step
  std::vector<float> squared_norms;  // likewise; empty without clipping
  TensorMap gradients;               // of the last step
  TensorMap parameters;
  RunSummary summary;
  Timeline timeline;
  std::vector<RoutedCounts> routing;
};

struct TrainingOptions {
  std::int64_t steps = 4;
  float learning_rate = 1e-2F;
  std::uint64_t seed = 5;
  bool poison = true;                // where the device works at once
  const FtDeviceApi* api = nullptr;  // null: the CPU's
  bool record = true;                // spans and memory
  int sm_share = 0;
  bool graphs = false;  // with `record`: and a recording that claims to have each op's times
  bool take_turns = false;
  FaultInjector* faults = nullptr;
  TensorSource weights;          // null: InitialWeights of the seed
  std::vector<LocalRank> local;  // as ExecutorOptions has them
  WorldMaker world;
  RoutingScript* routing = nullptr;
  GemmAlgorithms gemm_algorithms;
};

// Trains on a fixed text. Fails the test on an error.
Trained TrainTiny(const ModelSpec& model, const Plan& plan, const TrainingOptions& options = {});

// The text that TrainTiny trains on.
const std::string& TrainingText();

// Largest difference between two sets of tensors, each tensor's divided by its largest magnitude,
// or by a thousandth of the largest of all where that is more: a key's bias shifts all scores of a
// query alike, which the softmax takes out, so that its gradient is rounding alone. Fails the test
// where names or shapes differ.
double LargestDifference(const TensorMap& a, const TensorMap& b);

// Whether both trained: the same losses and parameters, bit by bit.
bool SameBits(const Trained& a, const Trained& b);

}  // namespace foretrain
