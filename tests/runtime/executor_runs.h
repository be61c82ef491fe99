// Makes an executor on the mock device, runs it, and looks its spans up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "recording_sink.h"
#include "runtime/executor.h"

namespace foretrain {

inline constexpr std::int64_t kSecond = 1'000'000'000;

// A failure of the test where the executor refuses.
std::unique_ptr<Executor> MakeExecutor(std::shared_ptr<const Program> program, RunClock& clock,
                                       ExecutorOptions options = {});
RunSummary RunOk(Executor& executor, std::int64_t steps, RunSink& sink);

const Span& SpanNamed(const Program& program, const Timeline& timeline, const std::string& name,
                      int rank = 0, int step = 0);

}  // namespace foretrain
