#include "app/capture_flags.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace foretrain {

void CaptureFlags::Declare(Arguments& arguments) {
  arguments.Option("--capture", level_, "off|launches|full",
                   "What is recorded: times of steps; ops as the host sees them; also memory and "
                   "what a GPU did");
  arguments.Option("--profile-step-start", first_step_, "N", "First step that is recorded");
  arguments.Option("--profile-step-end", end_step_, "N", "First step that is not recorded again");
  arguments.Option("--profile-ranks", ranks_, "RANKS", "Ranks that are recorded, e.g. 0,8");
}

Result<CaptureLevel> CaptureFlags::Level() const {
  if (level_ == "off") return CaptureLevel::kOff;
  if (level_ == "launches") return CaptureLevel::kLaunches;
  if (level_ == "full") return CaptureLevel::kFull;
  return Fail(ErrorCode::kInvalidArgument,
              "--capture: \"" + Printable(level_) + "\" is none of off, launches, full");
}

Result<CaptureWindow> CaptureFlags::Window(std::int64_t steps, int world) const {
  CaptureWindow window;
  if (level_ == "off" && !(first_step_.empty() && end_step_.empty() && ranks_.empty())) {
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
  for (const std::string_view part : Split(ranks_, ',')) {
    if (ranks_.empty()) break;
    FT_ASSIGN(const std::int64_t rank, ParseInt("--profile-ranks", Trim(part), 0, world - 1));
    window.ranks.push_back(static_cast<int>(rank));
  }
  std::sort(window.ranks.begin(), window.ranks.end());
  window.ranks.erase(std::unique(window.ranks.begin(), window.ranks.end()), window.ranks.end());
  return window;
}

}  // namespace foretrain
