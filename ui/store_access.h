// The desktop's access to stored runs; the program implements it. Leaves out when stores are opened
// (ui/store_loader.h).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "traces/run.h"
#include "ui/run_view.h"

namespace foretrain {

// A store, and which of its runs to show.
struct StoreRequest {
  std::string path{};
  RunId run = 0;      // 0: the newest measured one, or the newest forecast
  RunId against = 0;  // 0: the forecast of the run

  bool operator==(const StoreRequest&) const = default;
};

struct OpenedStore {
  std::string path{};
  RunId run = 0;      // the run that is shown
  RunId against = 0;  // as requested
  CompareInput input{};
  std::vector<RunInfo> runs{};            // of the store, oldest first
  std::map<RunId, std::string> models{};  // model names of the measured runs, if known
};

class StoreAccess {
 public:
  virtual ~StoreAccess() = default;

  // Opens a store. If this fails, the store before stays open. Runs too long to be read whole come
  // without spans (RunView::sums). Errors: a sentence for the user that says what is wrong with the
  // file.
  virtual Result<std::unique_ptr<OpenedStore>> Open(const StoreRequest& request) = 0;

  // Reads these stretches of the long runs of the open store. `stretches` is indexed by Side:
  // forecast, measured. Errors: kAborted, no long run is open; those of reading.
  virtual Result<std::unique_ptr<OpenedStore>> Read(
      const std::array<std::vector<Stretch>, 2>& stretches) = 0;

  // Reads the shown runs again, with the same stretches; null if nothing has changed.
  virtual Result<std::unique_ptr<OpenedStore>> Newer() = 0;
};

}  // namespace foretrain
