// How the desktop gets at stored runs: whoever runs it opens stores. Leaves out when that happens
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
};

struct OpenedStore {
  std::string path{};
  RunId run = 0;      // that is shown
  RunId against = 0;  // as asked
  CompareInput input{};
  std::vector<RunInfo> runs{};  // of the store, oldest first
  std::map<RunId, std::string> models{};  // names of the measured runs' models, where known
};

class StoreAccess {
 public:
  virtual ~StoreAccess() = default;

  // Opens a store in place of the one before, which stays open where this fails. Of runs too long
  // to be read whole no spans are read (RunView::sums).
  // Errors: what is wrong with the file, in a sentence for the user.
  virtual Result<std::unique_ptr<OpenedStore>> Open(const StoreRequest& request) = 0;

  // The same runs of the open store, with these stretches of the long ones read ([side], as
  // Side counts: forecast, measured). Errors: kAborted, no store is open; those of reading.
  virtual Result<std::unique_ptr<OpenedStore>> Read(
      const std::array<std::vector<Stretch>, 2>& stretches) = 0;

  // The same runs of the open store as they are now, with the same stretches read; null where
  // nothing has changed.
  virtual Result<std::unique_ptr<OpenedStore>> Newer() = 0;
};

}  // namespace foretrain
