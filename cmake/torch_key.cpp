#include <c10/core/DispatchKey.h>
int main() { return static_cast<int>(c10::DispatchKey::DTR_TORCH_KEY) == 0; }
