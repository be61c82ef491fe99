// One rank's storage for tensors on a disk: an unnamed file, accessed past the page cache if the
// file system allows it. The linked program places tensors in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace foretrain {

struct NvmeOptions {
  std::string folder = "/tmp";  // folder on the disk to use
  bool direct = true;           // bypass the page cache (O_DIRECT), if possible
  bool uring = true;            // several requests at once (io_uring), if possible
};

// Ranges start at multiples of 4096. A transfer may touch bytes up to the next multiple after its
// end, since disks move whole blocks.
class NvmeFile {
 public:
  // Creates a file of `bytes` zeros with all its blocks reserved. It has no name in the folder, so
  // nothing is left behind however the process ends.
  //
  // Errors: kResourceExhausted, the disk is too full; kIo, the folder cannot be used.
  static Result<std::unique_ptr<NvmeFile>> Make(std::int64_t bytes, const NvmeOptions& options);
  ~NvmeFile();
  NvmeFile(const NvmeFile&) = delete;
  NvmeFile& operator=(const NvmeFile&) = delete;

  // Both return when all bytes were moved. Memory aligned to 4096 needs no copy. Errors: kIo, with
  // the system's text. One thread at a time.
  Result<void> Read(std::int64_t offset, std::int64_t bytes, void* to);
  Result<void> Write(std::int64_t offset, std::int64_t bytes, const void* from);

 private:
  struct Ring;
  struct Slot;

  NvmeFile(int file, std::string folder, bool direct);
  Result<void> Reserve(std::int64_t bytes);
  void DropDirectIfRefused();
  Result<void> Move(bool write, std::int64_t offset, std::int64_t bytes, std::byte* at);
  Result<void> MoveBlocking(bool write, std::int64_t offset, std::int64_t bytes, std::byte* at);
  Error Failed(bool write, std::int64_t offset, std::int64_t bytes, int error) const;
  bool Submit(Slot& slot, bool write);
  Result<void> Complete(Slot& slot, bool write, std::int64_t moved);
  Slot* WaitForOne(std::int64_t& moved);

  int file_;
  std::string folder_;
  bool direct_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Slot[]> slots_;  // requests in flight
};

}  // namespace foretrain
