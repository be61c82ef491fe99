// An SQLite VFS whose n-th write, sync or truncation fails, once or from then on.
#pragma once

namespace foretrain {

enum class FaultKind { kFull, kIo };

// Name of the VFS; registers it at the first call.
const char* FaultVfs();

// Makes call number `call` fail, counted from 0 and from now; with `sticky` also all later ones.
void ArmFault(int call, bool sticky, FaultKind kind);

// Stops all failures. True if one occurred.
bool DisarmFault();

}  // namespace foretrain
