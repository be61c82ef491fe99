#include "app/cli/flags/capture_flags.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// The store bears nine values each 100 us for a GPU (docs/profiling.md).
Arguments::ReadText IntoCountersInterval(std::int64_t& interval_ns) {
  return [&interval_ns](const std::string& name, const std::string& text) -> Result<void> {
    FT_ASSIGN(const double interval_s, ParseSeconds(name, text));
    if (interval_s != 0 && (interval_s < 1e-4 || interval_s > 1)) {
      return Fail(ErrorCode::kInvalidArgument,
                  name + ": \"" + text + "\" is outside 100us to 1s; try 1ms");
    }
    interval_ns = NsFromSeconds(interval_s);
    return {};
  };
}

}  // namespace

void CaptureFlags::Declare(Arguments& arguments, std::int64_t& counters_interval_ns) {
  arguments.Option("--profile-step-start", first_step_, "N", "First step to record");
  arguments.Option("--profile-step-end", end_step_, "N",
                   "Step to end the recording before; default: none");
  arguments.Parsed("--sample-counters", "TIME",
                   "Sample the GPU's hardware counters that often, 100us to 1s, within the "
                   "recorded steps; 0: not at all",
                   IntoCountersInterval(counters_interval_ns), "0");
  arguments.Option("--profile-ranks", ranks_, "RANKS", "Ranks to record, e.g. 0,8; default: all");
}

Result<CaptureWindow> CaptureFlags::Window(CaptureLevel level, std::int64_t steps,
                                           int world) const {
  CaptureWindow window;
  const bool given = !(first_step_.empty() && end_step_.empty() && ranks_.empty());
  if (level == CaptureLevel::kOff && given) {
    return Fail(ErrorCode::kInvalidArgument,
                "--capture off records nothing: leave out --profile-step-start, "
                "--profile-step-end and --profile-ranks");
  }
  if (!first_step_.empty()) {
    FT_ASSIGN(window.first_step, ParseInt("--profile-step-start", first_step_, 0, steps - 1));
  }
  if (!end_step_.empty()) {
    FT_ASSIGN(window.end_step,
              ParseInt("--profile-step-end", end_step_, window.first_step + 1, INT64_MAX));
  }
  if (ranks_.empty()) return window;
  for (const std::string_view part : Split(ranks_, ',')) {
    FT_ASSIGN(const std::int64_t rank, ParseInt("--profile-ranks", Trim(part), 0, world - 1));
    window.ranks.push_back(static_cast<int>(rank));
  }
  // Sorted and unique, as CaptureWindow needs them.
  std::sort(window.ranks.begin(), window.ranks.end());
  window.ranks.erase(std::unique(window.ranks.begin(), window.ranks.end()), window.ranks.end());
  return window;
}

}  // namespace foretrain
