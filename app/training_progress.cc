#include "app/training_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/units.h"

namespace foretrain {

TrainingProgress::TrainingProgress(const TrainingOptions& options)
    : options_(options), terminal_(isatty(STDERR_FILENO) != 0) {}

void TrainingProgress::OnStep(const StepReport& report) {
  // The first step warms up and says nothing of the others.
  if (report.step > 0) elapsed_s_ += report.seconds;
  const std::int64_t done = report.step + 1;
  if (options_.json_lines) return PrintLine(report);
  if (!options_.progress) return;
  const std::int64_t every = std::max<std::int64_t>(1, options_.steps / 20);
  if (!terminal_ && done % every != 0 && done != 1 && done != options_.steps) return;
  std::fprintf(stderr, "%s%s step %lld/%lld  loss %.4f  %s tokens/s%s%s", terminal_ ? "\r" : "",
               Bar(done).c_str(), static_cast<long long>(done),
               static_cast<long long>(options_.steps), report.loss,
               FormatSi(report.tokens_per_s, "").c_str(), Left(done).c_str(),
               terminal_ ? "\033[K" : "\n");
  drawn_ = true;
}

void TrainingProgress::End() const {
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

void TrainingProgress::PrintLine(const StepReport& report) const {
  JsonWriter json;
  json.BeginObject().Field("step", report.step).Field("loss", report.loss);
  json.Field("seconds", report.seconds).Field("tokens_per_s", report.tokens_per_s);
  if (report.gradient_norm) json.Field("gradient_norm", *report.gradient_norm);
  std::puts(json.EndObject().Take().c_str());
  std::fflush(stdout);
}

std::string TrainingProgress::Left(std::int64_t done) const {
  if (done < 2 || done == options_.steps) return "";
  const double step_s = elapsed_s_ / static_cast<double>(done - 1);
  return "  " + FormatSeconds(step_s * static_cast<double>(options_.steps - done)) + " left";
}

std::string TrainingProgress::Bar(std::int64_t done) const {
  constexpr std::int64_t kWidth = 24;
  const auto full =
      static_cast<std::size_t>(kWidth * done / std::max<std::int64_t>(1, options_.steps));
  return "[" + std::string(full, '#') + std::string(kWidth - full, ' ') + "]";
}

}  // namespace foretrain
