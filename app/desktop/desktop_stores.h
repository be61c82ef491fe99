// Opens stores and traces for the desktop and reads their runs again as they grow. Leaves out when
// that happens (ui/store_loader.h).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/store_access.h"

namespace foretrain {

// One thread at a time may use it; Doing and Stop are safe from any.
class DesktopStores final : public StoreAccess {
 public:
  DesktopStores();
  ~DesktopStores() override;

  // Opens a store. A trace is imported first, into FILE.db in its own folder or, if that folder
  // cannot be written, in the folder for temporary files. An import that is at least as new as the
  // trace is used again. Errors: those of StoreReader::Open, LoadPair and ReadTraces.
  Result<std::unique_ptr<OpenedStore>> Open(const StoreRequest& request) override;
  Result<std::unique_ptr<OpenedStore>> Read(
      const std::array<std::vector<Stretch>, 2>& stretches) override;
  // Reads newer data of the open store. If another file has its name now, opens that file. Errors:
  // kIo, the file is gone; those of Open.
  Result<std::unique_ptr<OpenedStore>> Newer() override;

  // The progress of an import that another thread waits for: "Importing: reading a.json, 42.0 %".
  // Empty if none is under way.
  std::string Doing() const;
  // Ends an import that is under way.
  void Stop() { ending_ = true; }

 private:
  struct Current;

  Result<std::string> PathOf(const std::string& path);

  std::unique_ptr<Current> current_;  // null: none is open
  std::atomic<bool> ending_ = false;
  mutable std::mutex doing_mutex_;
  std::string doing_;  // guarded by doing_mutex_
};

}  // namespace foretrain
