// Shows a search on stderr while it runs, and lets a signal end it.
#pragma once

#include <cstdint>

#include "app/cli/stop_signal.h"
#include "sim/search/search.h"

namespace foretrain {

class SearchWatch {
 public:
  // `show`: draw a bar if stderr is a terminal.
  explicit SearchWatch(bool show);
  ~SearchWatch();
  SearchWatch(const SearchWatch&) = delete;
  SearchWatch& operator=(const SearchWatch&) = delete;

  // Sets threads, cancelled and progress.
  void Watch(SearchOptions& options);
  bool Cancelled() const { return StopSignal() != 0; }

 private:
  void Show(double share, std::int64_t evaluated);

  StopSignals signals_;
  bool show_;
  bool shown_ = false;
  int last_percent_ = -1;
};

}  // namespace foretrain
