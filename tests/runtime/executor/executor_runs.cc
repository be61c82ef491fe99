#include "tests/runtime/executor/executor_runs.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {

std::unique_ptr<Executor> MakeExecutor(std::shared_ptr<const Program> program, RunClock& clock,
                                       ExecutorOptions options) {
  auto made = Executor::Make(std::move(program), MockDeviceApi(), clock, std::move(options));
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return *std::move(made);
}

RunSummary RunOk(Executor& executor, std::int64_t steps, RunSink& sink) {
  CountingBatches batches;
  auto summary = executor.Run(steps, batches, sink);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  return summary.has_value() ? *summary : RunSummary{};
}

const Span& SpanNamed(const Program& program, const Timeline& timeline, const std::string& name,
                      int rank, int step) {
  const RankProgram& at = program.ranks[static_cast<std::size_t>(rank)];
  for (const OpRef ref : OpRefs(program, at)) {
    if (OpAt(program, at, ref).name != name) continue;
    for (const Span& span : timeline.spans) {
      if (span.op == IdOf(at, ref) && span.rank == rank && span.step == step) return span;
    }
  }
  ADD_FAILURE() << "no span of " << name << " on rank " << rank << " in step " << step;
  static const Span none;
  return none;
}

}  // namespace foretrain
