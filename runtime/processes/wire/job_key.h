// The key that all processes of a job share, by which they know each other: from the user's token,
// or, if all ranks are on one machine, from a file that only their user can read.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace foretrain {

// The key of a token. Errors: kInvalidArgument, a token of fewer than 16 characters.
Result<std::string> KeyOfToken(const std::string& token);

// The token in a file, without white space around it. Errors: kInvalidArgument, the file cannot be
// read, or others than its owner can.
Result<std::string> ReadTokenFile(const std::string& path);

// A file with a new random key, for ranks on one machine without a token: /tmp/foretrain-UID-PORT.
// Rank 0 makes it once it listens at the port, which no other process then does, and removes it
// with this object.
class KeyFile {
 public:
  // Errors: kIo, another user has a file of that name, or it cannot be written.
  static Result<KeyFile> Make(int port);
  KeyFile(KeyFile&& other) noexcept
      : path_(std::exchange(other.path_, "")), key_(std::move(other.key_)) {}
  ~KeyFile();
  const std::string& key() const { return key_; }

 private:
  KeyFile(std::string path, std::string key) : path_(std::move(path)), key_(std::move(key)) {}
  std::string path_;  // empty: moved from
  std::string key_;
};

// The key that rank 0 has left for this user. Errors: kIo, no such file yet; kInvalidArgument, it
// belongs to another user or others can read it.
Result<std::string> ReadKeyFile(int port);

}  // namespace foretrain
