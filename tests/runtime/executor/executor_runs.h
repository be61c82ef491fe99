// Creates and runs an executor on the mock device, and looks up its spans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/executor/executor.h"
#include "tests/runtime/executor/recording_sink.h"

namespace foretrain {

inline constexpr std::int64_t kSecond = 1'000'000'000;

// Fails the test if the executor refuses the program.
std::unique_ptr<Executor> MakeExecutor(std::shared_ptr<const Program> program, RunClock& clock,
                                       ExecutorOptions options = {});
RunSummary RunOk(Executor& executor, std::int64_t steps, RunSink& sink);

const Span& SpanNamed(const Program& program, const Timeline& timeline, const std::string& name,
                      int rank = 0, int step = 0);

}  // namespace foretrain
