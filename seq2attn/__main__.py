"""`python -m seq2attn`"""

from seq2attn.cli import main

if __name__ == "__main__":
    main()
