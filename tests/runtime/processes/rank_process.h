// A rank as a process, simulated by a thread that shares only its transport with the others: it has
// its own group, clock and executor.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/processes/process_world.h"
#include "runtime/run/fault_injector.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/training.h"

namespace foretrain {

struct ProcessJob {
  ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  std::int64_t timeout_ns = 30 * std::int64_t{1'000'000'000};
  std::int64_t steps = 3;
  FaultInjector* faults = nullptr;
  std::function<bool(int rank)> stop = {};
  std::string token{};
  std::shared_ptr<const Ucx> ucx{};  // null: over sockets
  TransferCheck check = TransferCheck::kNone;
};

// A run's result and records.
struct EndedProcess {
  std::optional<Error> error;
  RunSummary summary;
  RecordingSink sink;
};

// Runs one rank, which meets the others at `port`.
EndedProcess RunProcess(const ProcessJob& job, int rank, int port);
// Runs all ranks at a free port.
std::vector<EndedProcess> RunProcesses(const ProcessJob& job);

// The loss of each step.
std::vector<float> LossesOf(const RecordingSink& sink, std::int64_t steps);

}  // namespace foretrain
