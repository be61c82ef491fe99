// Stored runs as the desktop takes them. Leaves out drawing: ui/.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "app/stored_runs.h"
#include "ui/desktop_view.h"

namespace foretrain {

// `pair` with the figures' options of each run's own machine and plan. Either run may be missing.
// Errors: kCorruptInput, specs stored with a run that cannot be read.
Result<CompareInput> CompareInputOf(const StoreReader& reader, RunPair pair);

// Stores for the desktop. Not safe from several threads at once, but for Doing and Stop.
class DesktopStores final : public StoreAccess {
 public:
  // A trace is imported first (app/trace_store.h). Errors: as StoreReader::Open, LoadPair and
  // StoreOfTrace.
  Result<std::unique_ptr<OpenedStore>> Open(const StoreRequest& request) override;
  Result<std::unique_ptr<OpenedStore>> Read(
      const std::array<std::vector<Stretch>, 2>& stretches) override;
  // Another file under the name of the open one is opened in its place. Errors: kIo, it is gone;
  // as Open.
  Result<std::unique_ptr<OpenedStore>> Newer() override;

  // What Open is at while another thread waits for it: "Importing: reading a.json, 42.0 %"; empty
  // where that is soon done.
  std::string Doing() const;
  // Ends an import that is under way.
  void Stop() { ending_ = true; }

 private:
  struct Current;

 public:
  DesktopStores();
  ~DesktopStores() override;

 private:
  Result<std::string> PathOf(const std::string& path);

  std::unique_ptr<Current> current_;  // null: none is open
  std::atomic<bool> ending_ = false;
  mutable std::mutex doing_mutex_;
  std::string doing_;  // guarded by doing_mutex_
};

}  // namespace foretrain
