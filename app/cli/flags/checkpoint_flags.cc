#include "app/cli/flags/checkpoint_flags.h"

#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// At least 1 ms, so that no rate is infinite.
Arguments::ReadText IntoTime(double& seconds) {
  return [&seconds](const std::string& name, const std::string& text) -> Result<void> {
    FT_ASSIGN(seconds, ParseSeconds(name, text));
    if (seconds >= 1e-3) return {};
    return Fail(ErrorCode::kInvalidArgument,
                name + ": \"" + text + "\" is below 1 ms; give a time, e.g. 10min");
  };
}

}  // namespace

Arguments::ReadText IntoSaveEvery(SaveEvery& every) {
  return [&every](const std::string& name, const std::string& text) -> Result<void> {
    every = {};
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
      FT_ASSIGN(every.steps, ParseInt(name, text, 1, INT64_MAX / 2));
      return {};
    }
    FT_ASSIGN(const double seconds, ParseSeconds(name, text));
    if (seconds < 1e-3) {
      return Fail(ErrorCode::kInvalidArgument,
                  name + ": \"" + text + "\" is below 1 ms; give steps or a time, e.g. 10min");
    }
    every.ns = NsFromSeconds(seconds);
    return {};
  };
}

void GoodputFlags::Declare(Arguments& arguments) {
  arguments.Section("Goodput");
  arguments.Parsed("--mtbf", "TIME",
                   "Mean time between failures of the whole job, e.g. 3h: forecasts the share of "
                   "the time that becomes steps, with checkpoints and restarts",
                   IntoTime(mtbf_s));
  arguments.Parsed("--save-every", "STEPS|TIME",
                   "Steps or time (30s, 10min) between checkpoints; default: what is best",
                   IntoSaveEvery(every));
  arguments.Parsed("--restart-time", "TIME", "From a failure to the first step after it",
                   IntoTime(restart_s), "5min");
}

}  // namespace foretrain
