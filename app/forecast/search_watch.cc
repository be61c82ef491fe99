#include "app/forecast/search_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/parallel.h"

namespace foretrain {

SearchWatch::SearchWatch(bool show) : show_(show && isatty(STDERR_FILENO) != 0) {}

SearchWatch::~SearchWatch() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

// Connects the search to Ctrl-C and, on a terminal, to a progress bar. The search must not outlive
// this object.
void SearchWatch::Watch(SearchOptions& options) {
  options.threads = HardwareThreads();
  options.cancelled = [this] { return Cancelled(); };
  if (show_) {
    options.progress = [this](double share, std::int64_t evaluated) { Show(share, evaluated); };
  }
}

// Redraws only if the percentage changed, because the search reports far more often.
void SearchWatch::Show(double share, std::int64_t evaluated) {
  constexpr int kWidth = 24;
  const int percent = std::clamp(static_cast<int>(100 * share), 0, 100);
  if (percent == last_percent_) return;
  last_percent_ = percent;
  shown_ = true;
  const auto full = static_cast<std::size_t>(kWidth * percent / 100);
  std::fprintf(stderr, "\r[%s%s] %3d %%  %lld plans compared\x1b[K", std::string(full, '#').c_str(),
               std::string(kWidth - full, ' ').c_str(), percent, static_cast<long long>(evaluated));
  std::fflush(stderr);
}

}  // namespace foretrain
