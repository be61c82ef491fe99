// A synthetic pipeline run and its forecast, small but complete: 1F1B over stages and replicas,
// blocks of eight ops, sends, gradient buckets, an update, memory.
#pragma once

#include <cstdint>

#include "ui/run_view.h"

namespace foretrain {

struct SampleShape {
  int stages = 2;
  int replicas = 1;
  int layers = 8;  // of the whole model
  int micro_batches = 8;
  int steps = 3;         // of the measured run
  double spread = 0.03;  // relative spread of measured times
  std::uint64_t seed = 7;
  bool counters = false;  // of the measured run's GPUs
};

// Forecast and measurement. In the measured run attention takes 1.3 times as long on the last
// stage, transfers 1.6 times, and everything varies by a few percent. Rank = replica + replicas *
// stage.
CompareInput SampleInput(const SampleShape& shape = {});

}  // namespace foretrain
