#include "app/cli/flags/checkpoint_flags.h"

#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// At least 1 ms, so that no rate is infinite. `remedy`: the values that the option takes.
Result<double> ParseInterval(const std::string& name, const std::string& text, const char* remedy) {
  FT_ASSIGN(const double seconds, ParseSeconds(name, text));
  if (seconds >= 1e-3) return seconds;
  return Fail(ErrorCode::kInvalidArgument,
              name + ": \"" + text + "\" is below 1 ms; give " + remedy + ", e.g. 10min");
}

Arguments::ReadText IntoTime(double& seconds) {
  return [&seconds](const std::string& name, const std::string& text) -> Result<void> {
    FT_ASSIGN(seconds, ParseInterval(name, text, "a time"));
    return {};
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
    FT_ASSIGN(const double seconds, ParseInterval(name, text, "steps or a time"));
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
