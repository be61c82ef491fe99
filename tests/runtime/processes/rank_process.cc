#include "tests/runtime/processes/rank_process.h"

#include <gtest/gtest.h>

#include <thread>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/process_world.h"
#include "runtime/run/trainer.h"
#include "tests/runtime/ranks/free_port.h"

namespace foretrain {

EndedProcess RunProcess(const ProcessJob& job, int rank, int port) {
  EndedProcess ended;
  const auto run = [&]() -> Result<void> {
    FT_ASSIGN(auto program, Compile(job.model, job.plan));
    FT_ASSIGN(std::shared_ptr<ProcessGroup> group,
              ProcessGroup::Join({rank, job.plan.World(), rank, "127.0.0.1", port, job.token},
                                 job.timeout_ns));
    FT_ASSIGN(auto data, TokenData::FromText(TrainingText(), "text", job.model.vocab, job.plan));
    TrainJob train;
    train.program = std::make_shared<const Program>(std::move(program));
    train.steps = job.steps;
    train.learning_rate.peak = 1e-2;
    train.seed = 5;
    train.executor.local = {{rank, 0}};
    train.executor.world = ProcessWorldMaker(group, job.ucx, job.check);
    train.executor.timeout_ns = job.timeout_ns;
    train.executor.faults = job.faults;
    train.processes = group.get();
    RealClock clock;
    FT_ASSIGN(ended.summary, Train(train, CpuDeviceApi(), clock, *data, ended.sink,
                                   [&] { return job.stop && job.stop(rank); }));
    return {};
  };
  if (const auto end = run(); !end.has_value()) ended.error = end.error();
  return ended;
}

std::vector<EndedProcess> RunProcesses(const ProcessJob& job) {
  const int port = FreePort();
  std::vector<EndedProcess> ends(static_cast<std::size_t>(job.plan.World()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.plan.World(); ++rank) {
    threads.emplace_back(
        [&, rank] { ends[static_cast<std::size_t>(rank)] = RunProcess(job, rank, port); });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

std::vector<float> LossesOf(const RecordingSink& sink, std::int64_t steps) {
  std::vector<float> losses(static_cast<std::size_t>(steps));
  for (const StepScalars& scalars : sink.scalars) {
    if (scalars.loss) losses.at(static_cast<std::size_t>(scalars.step)) = *scalars.loss;
  }
  return losses;
}

}  // namespace foretrain
